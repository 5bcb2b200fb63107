/* error.c: this thread's last failure. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Room for a compiler log; what is longer is cut. */
static _Thread_local char message[8192];

fa_status fail(fa_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

fa_status fail_in(fa_status status, const char *prefix) {
  size_t room = sizeof message - 1;
  size_t shift = strlen(prefix) + 2;
  if (shift >= room) return status;
  size_t kept = strlen(message);
  if (kept > room - shift) kept = room - shift;
  memmove(message + shift, message, kept);
  memcpy(message, prefix, shift - 2);
  memcpy(message + shift - 2, ": ", 2);
  message[shift + kept] = '\0';
  return status;
}

FA_API const char *fa_error_message(void) {
  return message;
}

FA_API const char *fa_status_name(fa_status status) {
  switch (status) {
  case FA_OK:
    return "FA_OK";
  case FA_INVALID:
    return "FA_INVALID";
  case FA_UNSUPPORTED:
    return "FA_UNSUPPORTED";
  case FA_BAD_STRUCT:
    return "FA_BAD_STRUCT";
  case FA_CAPTURE:
    return "FA_CAPTURE";
  case FA_TEMPLATE:
    return "FA_TEMPLATE";
  case FA_COMPILE:
    return "FA_COMPILE";
  case FA_NO_NVRTC:
    return "FA_NO_NVRTC";
  case FA_DRIVER:
    return "FA_DRIVER";
  case FA_NO_DRIVER:
    return "FA_NO_DRIVER";
  case FA_NO_MEMORY:
    return "FA_NO_MEMORY";
  }
  return "unknown status";
}
