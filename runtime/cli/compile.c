/* compile.c: `fagen compile`: GPU kernels to cubins, without a GPU, and what the compiler says of
   them. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "files.h"
#include "gen/error.h"
#include "jobs.h"
#include "specs.h"

/* ---- The table ------------------------------------------------------------------------------- */

static int name_columns(const job *jobs, size_t count) {
  size_t longest = strlen("kernel");
  for (size_t i = 0; i < count; ++i)
    if (strlen(jobs[i].name) > longest) longest = strlen(jobs[i].name);
  return (int)longest;
}

static void print_heading(int columns) {
  printf("%-*s  %9s  %10s  %9s  %11s  %7s  %15s  %11s  %s\n", columns, "kernel", "render ms",
         "compile ms", "registers", "spill bytes", "warning", "shared bytes", "cubin bytes",
         "from");
}

static void print_entry_cells(const cubin_entry *entry, int dynamic_bytes) {
  char shared[40], warning[16] = "-";
  if (entry->serialised) snprintf(warning, sizeof warning, "C%d", entry->serialised);
  if (dynamic_bytes < 0)
    snprintf(shared, sizeof shared, "%d + ?", entry->shared_bytes);
  else
    snprintf(shared, sizeof shared, "%d + %d", entry->shared_bytes, dynamic_bytes);
  if (entry->registers)
    printf("  %9d  %11d  %7s  %15s", entry->registers, entry->spill_bytes, warning, shared);
  else
    printf("  %9s  %11s  %7s  %15s", "?", "?", "?", shared); /* this NVRTC does not report */
}

static void print_kernel(const job *j, int columns) {
  const cuda_binary *binary = &j->binary;
  const cubin *code = &binary->code;
  printf("%-*s", columns, j->name);
  if (binary->origin == FA_FROM_DISK)
    printf("  %9s  %10s", "-", "-");
  else
    printf("  %9.1f  %10.1f", binary->render_ms, binary->compile_ms);
  if (code->num_entries == 1)
    print_entry_cells(&code->entries[0], j->dynamic_bytes[0]);
  else
    printf("  %9s  %11s  %7s  %15s", "", "", "", "");
  printf("  %11zu  %s\n", code->bytes, binary->origin == FA_FROM_DISK ? "disk cache" : "NVRTC");
}

/* Of a kernel with several, each on a line below it: "_main" and so on. */
static void print_entries(const job *j, int columns) {
  const cubin *code = &j->binary.code;
  const size_t prefix = strlen(j->name);
  for (int i = 0; code->num_entries > 1 && i < code->num_entries; ++i) {
    const char *name = code->entries[i].name;
    printf("  %-*s  %9s  %10s", columns - 2, strncmp(name, j->name, prefix) ? name : name + prefix,
           "", "");
    print_entry_cells(&code->entries[i], j->dynamic_bytes[i]);
    putchar('\n');
  }
}

static void print_table(const job *jobs, size_t count) {
  const int columns = name_columns(jobs, count);
  print_heading(columns);
  for (size_t i = 0; i < count; ++i) {
    if (jobs[i].status) {
      printf("%-*s  not compiled\n", columns, jobs[i].name);
      continue;
    }
    print_kernel(&jobs[i], columns);
    print_entries(&jobs[i], columns);
  }
  puts("\nshared bytes: static + dynamic, a block; warning: C75xx, wgmma products one by one");
}

/* ---- The command ----------------------------------------------------------------------------- */

static int write_cubins(const job *jobs, size_t count, const char *folder) {
  int code = CLI_OK;
  for (size_t i = 0; i < count; ++i) {
    const cubin *made = &jobs[i].binary.code;
    char file[FA_NAME_MAX + 16];
    if (jobs[i].status) continue;
    snprintf(file, sizeof file, "%s.cubin", jobs[i].name);
    int error = files_write(folder, file, made->image, made->bytes);
    if (error) {
      fprintf(stderr, "fagen: %s/%s: %s\n", folder, file, strerror(error));
      code = CLI_WRONG;
    } else {
      fprintf(stderr, "wrote %s/%s\n", folder, file);
    }
  }
  return code;
}

/* A missing NVRTC is the same for all and told once. */
static int tell_failures(const job *jobs, size_t count) {
  int code = CLI_OK, told_missing = 0;
  for (size_t i = 0; i < count; ++i) {
    const job *j = &jobs[i];
    if (!j->status) continue;
    code = cli_worst(code, cli_exit_code(j->status));
    const char *message = j->message ? j->message : "out of memory";
    if (j->status != FA_NO_NVRTC)
      fprintf(stderr, "fagen: %s: %s\n", j->name, message);
    else if (!told_missing++)
      fprintf(stderr, "fagen: %s\n", message);
  }
  return code;
}

static size_t count_made(const job *jobs, size_t count) {
  size_t made = 0;
  for (size_t i = 0; i < count; ++i) made += !jobs[i].status;
  return made;
}

static int compile_all(job *jobs, size_t count, const cli_options *options) {
  cuda_tools tools = gpu_tools_open(!options->no_cache);
  jobs_run(jobs, count, (int)options->jobs, &tools);
  gpu_tools_close(&tools);
  if (count_made(jobs, count)) print_table(jobs, count);
  fflush(stdout);
  int code = tell_failures(jobs, count);
  if (options->folder) code = cli_worst(code, write_cubins(jobs, count, options->folder));
  return code;
}

/* What has no target went to the processor, where there is no GPU. */
static fa_status check_targets(const spec_list *specs) {
  for (size_t i = 0; i < specs->count; ++i) {
    char words[FA_NAME_MAX] = "";
    if (specs->items[i].target != FA_TARGET_CPU) continue;
    fa_spec_print(words, sizeof words, &specs->items[i]);
    return fail(FA_INVALID,
                "'%s' is for the processor, which needs no compiling ahead; name a GPU target, "
                "sm80 or sm90",
                words);
  }
  return FA_OK;
}

int cli_compile(const cli_options *options) {
  spec_list specs;
  fa_status status = spec_list_read(&specs, options->words, options->num_words);
  if (status) return cli_fail(status);
  job *jobs = NULL;
  int code = cli_make_folder(options->folder);
  if (!code && (status = check_targets(&specs))) code = cli_fail(status);
  if (!code && !(jobs = jobs_create(specs.items, specs.count)))
    code = cli_fail(fail(FA_NO_MEMORY, "out of memory for %zu kernels", specs.count));
  if (!code) code = compile_all(jobs, specs.count, options);
  jobs_free(jobs, specs.count);
  spec_list_free(&specs);
  return code;
}
