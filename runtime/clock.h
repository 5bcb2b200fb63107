/* clock.h: time spent, for reports. */
#ifndef FAGEN_RUNTIME_CLOCK_H
#define FAGEN_RUNTIME_CLOCK_H

/* Milliseconds of a clock that only runs forward. */
double clock_ms(void);

#endif
