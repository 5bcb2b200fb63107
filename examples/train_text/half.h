/* half.h: f16 and bf16 as the bits that tensors hold. */
#ifndef TRAIN_TEXT_HALF_H
#define TRAIN_TEXT_HALF_H

#include <stdint.h>

uint16_t f16_from(float x);
float f16_to(uint16_t half);
uint16_t bf16_from(float x);
float bf16_to(uint16_t half);

#endif
