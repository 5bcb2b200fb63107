/* driver_values_toolkits.c: what the toolkit's header says of driver_values.h. */
#include <cuda.h>
#include <stddef.h>

#include "driver_values.h"

const driver_value driver_values_toolkits[] = {VALUES};
