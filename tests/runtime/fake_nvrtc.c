/* fake_nvrtc.c: a library with the functions of NVRTC, whose binaries have the kernels of the
   source and no code. It takes no time and needs no toolkit; the environment makes it slow or
   failing or, with FAKE_NVRTC_OLD, ignorant of --no-cache, and FAKE_NVRTC_COUNT names a file that
   grows by a byte for every compilation. FAKE_MINOR is its minor version. */
#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_fault.h"

#define EXPORT __attribute__((visibility("default")))

enum { NVRTC_ERROR_INVALID_OPTION = 5, NVRTC_ERROR_INTERNAL_ERROR = 11 };
enum { ENTRIES = 8, NAME = 320, NAMES_BYTES = ENTRIES * NAME + 1 };

typedef struct program {
  char *source;
  char log[4096];
} program;

typedef struct image {
  Elf64_Ehdr head;
  Elf64_Shdr sections[3]; /* none, symbols, names */
  Elf64_Sym symbols[ENTRIES + 1];
  char names[NAMES_BYTES];
} image;

static int number(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

EXPORT int nvrtcVersion(int *major, int *minor) {
  if (fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR)) return NVRTC_ERROR_INTERNAL_ERROR;
  *major = 13;
  *minor = FAKE_MINOR;
  return 0;
}

EXPORT int nvrtcGetNumSupportedArchs(int *count) {
  if (fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR)) return NVRTC_ERROR_INTERNAL_ERROR;
  *count = 5;
  return 0;
}

EXPORT int nvrtcGetSupportedArchs(int *archs) {
  if (fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR)) return NVRTC_ERROR_INTERNAL_ERROR;
  static const int all[] = {80, 86, 89, 90, 100};
  memcpy(archs, all, sizeof all);
  return 0;
}

EXPORT int nvrtcCreateProgram(program **out, const char *source, const char *name, int count,
                              const char *const *headers, const char *const *names) {
  if (fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR)) return NVRTC_ERROR_INTERNAL_ERROR;
  (void)name, (void)count, (void)headers, (void)names;
  *out = calloc(1, sizeof **out);
  (*out)->source = strdup(source);
  return 0;
}

EXPORT int nvrtcDestroyProgram(program **p) {
  free((*p)->source);
  free(*p);
  *p = NULL;
  return fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR);
}

EXPORT int nvrtcCompileProgram(program *p, int count, const char *const *options) {
  if (fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR)) return NVRTC_ERROR_INTERNAL_ERROR;
  for (int i = 0; i < count; ++i)
    if (number("FAKE_NVRTC_OLD", 0) && !strcmp(options[i], "--no-cache"))
      return NVRTC_ERROR_INVALID_OPTION;
  const char *counter = getenv("FAKE_NVRTC_COUNT");
  int file = counter ? open(counter, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
  if (file >= 0) {
    if (write(file, "+", 1) != 1) abort();
    close(file);
  }
  usleep((unsigned)number("FAKE_NVRTC_MS", 0) * 1000u);
  snprintf(p->log, sizeof p->log, "%s",
           number("FAKE_NVRTC_ERROR", 0) == 7 ? "failed to open libnvrtc-builtins.so.13.0" : "");
  return number("FAKE_NVRTC_ERROR", 0);
}

EXPORT int nvrtcGetProgramLogSize(program *p, size_t *bytes) {
  if (fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR)) return NVRTC_ERROR_INTERNAL_ERROR;
  *bytes = strlen(p->log) + 1;
  return 0;
}

EXPORT int nvrtcGetProgramLog(program *p, char *log) {
  if (fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR)) return NVRTC_ERROR_INTERNAL_ERROR;
  strcpy(log, p->log);
  return 0;
}

EXPORT int nvrtcGetCUBINSize(program *p, size_t *bytes) {
  if (fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR)) return NVRTC_ERROR_INTERNAL_ERROR;
  (void)p;
  *bytes = number("FAKE_NVRTC_EMPTY", 0) ? 0 : sizeof(image);
  return 0;
}

/* A symbol for every name that follows __global__ in the source. */
EXPORT int nvrtcGetCUBIN(program *p, char *out) {
  if (fault_code(__func__, NVRTC_ERROR_INTERNAL_ERROR)) return NVRTC_ERROR_INTERNAL_ERROR;
  image *i = (image *)out;
  memset(i, 0, sizeof *i);
  memcpy(i->head.e_ident, ELFMAG, SELFMAG);
  i->head.e_ident[EI_CLASS] = ELFCLASS64;
  i->head.e_machine = EM_CUDA;
  i->head.e_shoff = offsetof(image, sections);
  i->head.e_shnum = 3;
  i->head.e_shentsize = sizeof(Elf64_Shdr);
  i->sections[1] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                .sh_offset = offsetof(image, symbols),
                                .sh_size = sizeof i->symbols,
                                .sh_link = 2};
  i->sections[2] = (Elf64_Shdr){
      .sh_type = SHT_STRTAB, .sh_offset = offsetof(image, names), .sh_size = NAMES_BYTES};
  const char *at = p->source;
  for (int n = 0; n < ENTRIES && (at = strstr(at, "__global__")); ++n) {
    do at = strstr(at + 1, "fa_");
    while (at && at[-1] != ' ' && at[-1] != '\n');
    if (!at) break;
    unsigned name = 1 + (unsigned)n * NAME;
    memcpy(i->names + name, at, strcspn(at, "("));
    i->symbols[n + 1] = (Elf64_Sym){
        .st_name = name, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_other = 0x10};
  }
  return 0;
}
