/* nvrtc.c: from an emitted kernel to a cubin. */
#include "nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "nvrtc_library.h"

void nvrtc_options_of(nvrtc_options *out, const fa_spec *spec) {
  /* 9.0a has the instructions of Hopper alone, wgmma and setmaxnreg among them. */
  snprintf(out->arch, sizeof out->arch, "--gpu-architecture=sm_%d%s", spec->arch,
           spec->target == FA_TARGET_SM90 ? "a" : "");
  out->list[0] = out->arch;
  out->list[1] = "--std=c++17";
  out->list[2] = "--ptxas-options=-v"; /* registers, shared memory and spills, into the log */
  /* It would write to a cache of its own, ours is elsewhere, and what it finds there has no log. */
  out->list[3] = "--no-cache";
}

static fa_status check_arch(const nvrtc *library, int arch) {
  int count = 0, known = 0;
  char list[512] = "";
  if (library->GetNumSupportedArchs(&count) || count < 1) return FA_OK; /* it will say itself */
  int *archs = calloc((size_t)count, sizeof *archs);
  if (!archs) return fail(FA_NO_MEMORY, "NVRTC: out of memory");
  library->GetSupportedArchs(archs);
  for (int i = 0; i < count; ++i) {
    size_t used = strlen(list);
    known |= archs[i] == arch;
    snprintf(list + used, sizeof list - used, " %d", archs[i]);
  }
  free(archs);
  if (known) return FA_OK;
  return fail(FA_UNSUPPORTED, "arch: cc%d; NVRTC %s (%s) compiles for%s", arch, library->version,
              library->path, list);
}

static char *read_log(const nvrtc *library, nvrtcProgram program) {
  size_t bytes = 0;
  library->GetProgramLogSize(program, &bytes);
  char *log = calloc(1, bytes + 1);
  if (log && bytes) library->GetProgramLog(program, log);
  return log;
}

static fa_status compile_failure(nvrtcResult code, const nvrtc *library, const render_text *text,
                                 const char *file_name, const char *log) {
  if (code == NVRTC_ERROR_OUT_OF_MEMORY) return fail(FA_NO_MEMORY, "NVRTC: out of memory");
  if (code == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE)
    return fail(FA_NO_NVRTC, "NVRTC %s (%s) is not complete: %s", library->version, library->path,
                log);
  char *mapped = render_map_log(text, log, file_name);
  fa_status status =
      fail(FA_COMPILE, "NVRTC %s, error %d: %s", library->version, code, mapped ? mapped : log);
  free(mapped);
  return status;
}

static fa_status take_cubin(cubin *out, const nvrtc *library, nvrtcProgram program,
                            const char *log) {
  size_t bytes = 0;
  library->GetCUBINSize(program, &bytes);
  if (!bytes) return fail(FA_COMPILE, "NVRTC %s made no binary: %s", library->version, log);
  if (!(out->image = malloc(bytes))) return fail(FA_NO_MEMORY, "cubin: no %zu bytes", bytes);
  out->bytes = bytes;
  if (library->GetCUBIN(program, out->image))
    return fail(FA_COMPILE, "NVRTC %s does not give its binary", library->version);
  return cubin_read_entries(out, log);
}

/* A library too old to have a cache refuses the last option, and is asked without it. */
static nvrtcResult compile_source(nvrtcProgram *program, const nvrtc *library, const char *source,
                                  const char *file_name, const nvrtc_options *options) {
  nvrtcResult code = 0;
  for (int count = NVRTC_OPTIONS; count >= NVRTC_OPTIONS - 1; --count) {
    if (*program) library->DestroyProgram(program);
    code = library->CreateProgram(program, source, file_name, 0, NULL, NULL);
    if (!code) code = library->CompileProgram(*program, count, options->list);
    if (code != NVRTC_ERROR_INVALID_OPTION) break;
  }
  return code;
}

fa_status nvrtc_compile(cubin *out, const nvrtc *library, const render_result *text,
                        const fa_spec *spec) {
  char file_name[FA_NAME_MAX + 16];
  nvrtcProgram program = NULL;
  nvrtc_options options;
  char *log = NULL;
  *out = (cubin){.image = NULL};
  fa_status status = check_arch(library, spec->arch);
  if (status) return status;
  /* The name is part of some symbols: one spec, one name, one binary. */
  snprintf(file_name, sizeof file_name, "%s.cu", text->name);
  nvrtc_options_of(&options, spec);
  nvrtcResult code = compile_source(&program, library, text->kernel.text, file_name, &options);
  log = program ? read_log(library, program) : NULL;
  if (code)
    status = compile_failure(code, library, &text->kernel, file_name, log ? log : "");
  else
    status = take_cubin(out, library, program, log ? log : "");
  if (status) cubin_free(out);
  if (program) library->DestroyProgram(&program);
  free(log);
  return status;
}
