/* cubin.c: the symbol table of a cubin, and ptxas' report. */
#include "cubin.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* The mark of a __global__ function in a symbol's `other` field; <elf.h> has no CUDA names. */
enum { STO_CUDA_ENTRY = 0x10 };

/* ---- The symbol table ------------------------------------------------------------------------ */

/* count items of `size` at offset, or NULL when they are not all inside the image. */
static const void *slice(const cubin *of, uint64_t offset, uint64_t count, uint64_t size) {
  if (offset > of->bytes || count > (of->bytes - offset) / size) return NULL;
  return (const char *)of->image + offset;
}

static fa_status add_entry(cubin *to, const char *name) {
  if (to->num_entries == CUBIN_ENTRIES)
    return fail(FA_COMPILE, "cubin: more than %d entries", CUBIN_ENTRIES);
  cubin_entry *entry = &to->entries[to->num_entries++];
  *entry = (cubin_entry){.registers = 0};
  if (snprintf(entry->name, sizeof entry->name, "%s", name) < (int)sizeof entry->name) return FA_OK;
  return fail(FA_COMPILE, "cubin: '%.60s...': an entry's name is at most %d characters", name,
              CUBIN_NAME - 1);
}

static fa_status add_entries(cubin *to, const Elf64_Shdr *symbols, const Elf64_Shdr *names) {
  const uint64_t count = symbols->sh_size / sizeof(Elf64_Sym);
  const Elf64_Sym *symbol = slice(to, symbols->sh_offset, count, sizeof *symbol);
  const char *text = slice(to, names->sh_offset, names->sh_size, 1);
  if (!symbol || !text || !names->sh_size || text[names->sh_size - 1])
    return fail(FA_COMPILE, "cubin: its symbol table is cut off");
  fa_status status = FA_OK;
  for (uint64_t i = 0; !status && i < count; ++i) {
    Elf64_Sym s;
    memcpy(&s, symbol + i, sizeof s);
    int is_entry = ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_other & STO_CUDA_ENTRY;
    if (is_entry && s.st_name < names->sh_size) status = add_entry(to, text + s.st_name);
  }
  return status;
}

static fa_status find_entries(cubin *to) {
  Elf64_Ehdr head;
  if (to->bytes < sizeof head || memcmp(to->image, ELFMAG, SELFMAG))
    return fail(FA_COMPILE, "cubin: not an ELF file");
  memcpy(&head, to->image, sizeof head);
  const char *table = slice(to, head.e_shoff, head.e_shnum, sizeof(Elf64_Shdr));
  if (!table || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != EM_CUDA ||
      head.e_shentsize != sizeof(Elf64_Shdr))
    return fail(FA_COMPILE, "cubin: not 64-bit CUDA code");
  fa_status status = FA_OK;
  for (int i = 0; !status && i < head.e_shnum; ++i) {
    Elf64_Shdr section, names;
    memcpy(&section, table + (size_t)i * sizeof section, sizeof section);
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= head.e_shnum) continue;
    memcpy(&names, table + section.sh_link * sizeof names, sizeof names);
    status = add_entries(to, &section, &names);
  }
  if (!status && !to->num_entries) status = fail(FA_COMPILE, "cubin: it has no kernel");
  return status;
}

/* ---- The compiler's report ------------------------------------------------------------------- */

/* Reads "... 160 bytes spill stores, 280 bytes spill loads" and "Used 64 registers, ... 400 bytes
   smem": the lines that follow the entry's name. */
static void read_report(cubin_entry *entry, const char *log) {
  char title[CUBIN_NAME + 32], line[512];
  snprintf(title, sizeof title, "Function properties for %s\n", entry->name);
  const char *at = strstr(log, title);
  if (!at) return;
  at = strstr(at + strlen(title), "bytes stack frame, ");
  int stores, loads;
  if (!at || sscanf(at, "bytes stack frame, %d bytes spill stores, %d", &stores, &loads) != 2)
    return;
  at = strstr(at, "Used ");
  if (!at || sscanf(at, "Used %d registers", &entry->registers) != 1) return;
  entry->spill_bytes = stores + loads;
  snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
  char *shared = strstr(line, " bytes smem");
  if (!shared) return;
  while (shared > line && shared[-1] >= '0' && shared[-1] <= '9') --shared;
  entry->shared_bytes = atoi(shared);
}

/* Reads "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...
   in the function 'NAME'": the last of an entry's. */
static void read_warnings(cubin_entry *entry, const char *log) {
  char title[CUBIN_NAME + 4], line[1024];
  snprintf(title, sizeof title, "'%s'", entry->name);
  for (const char *at = log; (at = strstr(at, "(C75")); ++at) {
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    if (strstr(line, title)) entry->serialised = atoi(line + 2);
  }
}

fa_status cubin_read_entries(cubin *of, const char *log) {
  of->num_entries = 0;
  fa_status status = find_entries(of);
  for (int i = 0; !status && i < of->num_entries; ++i) {
    read_report(&of->entries[i], log);
    read_warnings(&of->entries[i], log);
  }
  return status;
}

/* ---- As text --------------------------------------------------------------------------------- */

char *cubin_print_entries(const cubin *of) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&text, &bytes);
  if (!out) return NULL;
  for (int i = 0; i < of->num_entries; ++i) {
    const cubin_entry *entry = &of->entries[i];
    fprintf(out, "%s %d registers %d shared %d spill %d serialised\n", entry->name,
            entry->registers, entry->shared_bytes, entry->spill_bytes, entry->serialised);
  }
  fclose(out);
  return text;
}

int cubin_parse_entries(cubin *to, const char *text) {
  to->num_entries = 0;
  while (*text && to->num_entries < CUBIN_ENTRIES) {
    cubin_entry *entry = &to->entries[to->num_entries];
    int used = 0;
    _Static_assert(CUBIN_NAME == 288, "the width below");
    sscanf(text, "%287s %d registers %d shared %d spill %d serialised\n%n", entry->name,
           &entry->registers, &entry->shared_bytes, &entry->spill_bytes, &entry->serialised, &used);
    if (!used) return 0;
    text += used;
    ++to->num_entries;
  }
  return to->num_entries > 0 && !*text;
}

void cubin_free(cubin *of) {
  free(of->image);
  *of = (cubin){.image = NULL};
}
