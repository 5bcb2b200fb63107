/* help.c: the help pages. Every example in them works as it stands. */
#include "help.h"

#include <stdio.h>

static const char overview[] =
    "fagen writes attention kernels: one small spec in, one specialised source file out.\n"
    "\n"
    "  fagen emit SPEC... [-o DIR]      write the kernel and its launch plan\n"
    "  fagen check SPEC... [sizes]      run it and compare with a float64 reference\n"
    "  fagen explain SPEC... [sizes]    tiles and reasons, FLOPs, bytes, memory, occupancy\n"
    "  fagen compile SPEC... [-o DIR]   GPU kernels to cubins, several at a time, without a GPU\n"
    "  fagen cache COMMAND              list, verify or prune the GPU kernels on disk\n"
    "  fagen doctor                     what this machine has, and what is wrong with it\n"
    "  fagen list                       the words of a spec, targets, variants\n"
    "  fagen help [COMMAND]             this page, or a command's options\n"
    "  fagen --version\n"
    "\n"
    "A spec is a few words in any order: a pass (fwd, pre, bwd), a dtype (f16, bf16, f32) and a\n"
    "head dimension (d64); then, if wanted, a target (cpu, sm80, sm90), v128, gqa4, causal, det "
    "and\n"
    "names of variants. A spec that names a target is for that target; one that does not is for "
    "the\n"
    "best that this machine has.\n"
    "\n"
    "  - An argument with a blank in it is one spec; bare words in a row are one spec together.\n"
    "  - Commas list alternatives and give every combination: fwd,bwd d64,128 is four specs.\n"
    "\n"
    "Try:\n"
    "  fagen emit fwd cpu f32 d64 causal            the kernel, on stdout\n"
    "  fagen emit fwd,bwd cpu bf16 d64,128 -o out   four kernels, eight files in out/\n"
    "  fagen check \"fwd cpu f32 d64 causal\" \"bwd cpu f32 d64 causal\"\n"
    "  fagen explain bwd cpu bf16 d128 causal --heads 32 --seqlen 8192\n"
    "\n"
    "Exit codes: 0 right; 1 wrong result or failed build; 2 bad input; 3 cannot run here.\n"
    "Environment: FA_TEMPLATE_DIR, a folder whose templates and variants come before the embedded\n"
    "ones; FA_THREADS, the threads of the cpu target; FA_NVRTC, the file of NVRTC, NVIDIA's "
    "run-time\n"
    "compiler; FA_CACHE_DIR, the folder of compiled GPU kernels, empty for none;\n"
    "FA_LOG, what is told on stderr: off, warn, info or debug.\n";

static const char emit_page[] =
    "fagen emit SPEC... [-o DIR]\n"
    "\n"
    "Writes for each spec the kernel, NAME.cu (NAME.c for cpu), and its launch plan, "
    "NAME_launch.c.\n"
    "NAME is the emitted function: fa_ and the spec's words in canonical order. A spec that is "
    "given\n"
    "twice is written once. Needs no GPU and no CUDA for any target.\n"
    "\n"
    "  -o, --output DIR   write into DIR, which is made with its parents; files that are there "
    "are\n"
    "                     replaced, each in one step. The names written are told on stderr.\n"
    "                     Without it the kernels go to stdout, one after the other, and no plans.\n"
    "\n"
    "  fagen emit fwd cpu f32 d64 causal | less\n"
    "  fagen emit fwd,bwd cpu f16,bf16 d64,128 gqa4 causal -o kernels\n";

static const char list_page[] =
    "fagen list\n"
    "\n"
    "Shows the words of a spec with their meaning, the targets and whether each can run here, and\n"
    "the variants: the embedded ones and those in FA_TEMPLATE_DIR, each with its doc sentence and\n"
    "its parameters.\n"
    "A variant that does not load is shown with its error, and the exit code is 1.\n"
    "\n"
    "  fagen list\n"
    "  FA_TEMPLATE_DIR=my_templates fagen list\n";

#define SIZE_OPTIONS(batch, heads, seqlen, seqlen_k)                                              \
  "  --batch N              sequences; default " batch "\n"                                       \
  "  --heads N              query heads; default " heads "\n"                                     \
  "  --heads-kv N           key/value heads; default --heads / the spec's group\n"                \
  "  --seqlen N             queries a sequence; default " seqlen "\n"                             \
  "  --seqlen-k N           keys a sequence; default --seqlen if given, else " seqlen_k "\n"      \
  "  --param VARIANT.NAME=VALUE\n"                                                                \
  "                         a variant's parameter, all elements of a table, or the length of a\n" \
  "                         variant's tables by the name of their size; may be given several\n"   \
  "                         times. What is not given is drawn in its declared range\n"            \
  "  --seed N               of what is drawn; default 1. With an even one i32 tables ascend\n"

static const char explain_page[] =
    "fagen explain SPEC... [sizes]\n"
    "\n"
    "Shows the parameters of variants, what the generator decided and why, FLOPs, the share of "
    "tiles\n"
    "that the mask leaves empty, full and mixed, bytes moved, what is saved for backward, the "
    "launch\n"
    "plan and the workspace, with the products that give each figure; for a GPU target also\n"
    "registers, spills, shared memory and occupancy of the compiled kernel. The plan is for this\n"
    "machine's GPU if it runs the spec, else for a device of the spec's arch, which is named. "
    "What\n"
    "needs something that is not here is named as not computed, with the reason; the rest is "
    "shown\n"
    "all the same.\n"
    "\n" SIZE_OPTIONS("1", "32, or the next multiple of the group", "8192",
                      "8192") "\n"
                              "  fagen explain fwd cpu bf16 d128 causal --heads 32 --seqlen 8192\n"
                              "  fagen explain bwd sm90 bf16 d128 gqa4 causal --batch 4\n";

static const char compile_page[] =
    "fagen compile SPEC... [-o DIR] [--jobs N] [--no-cache]\n"
    "\n"
    "Compiles GPU kernels with NVRTC, NVIDIA's run-time compiler, several at a time. Needs no\n"
    "GPU and no driver. Shows of each kernel the milliseconds to render and to compile it,\n"
    "registers a thread, bytes spilled a thread, the number of the compiler's warning that wgmma\n"
    "products run one by one, shared memory a block (static + dynamic), the bytes of the cubin\n"
    "and whether it came from NVRTC or from the disk cache; a kernel with several entries has a\n"
    "line for each. What was compiled is kept, see `fagen help cache`.\n"
    "\n"
    "  -o, --output DIR   write NAME.cubin into DIR, which is made with its parents; without it\n"
    "                     no file is written outside the disk cache\n"
    "  -j, --jobs N       kernels at a time, 1 to 1024; default: as many as processors\n"
    "      --no-cache     compile all anew, and keep nothing\n"
    "\n"
    "Exit codes: 1 when a kernel does not compile; 3 without NVRTC, which FA_NVRTC may name.\n"
    "\n"
    "  fagen compile fwd,bwd sm80 bf16 d64,128\n"
    "  fagen compile fwd sm80 cc80,cc86,cc90 f16 d64 causal -o cubins\n";

static const char cache_page[] =
    "fagen cache list\n"
    "fagen cache verify\n"
    "fagen cache prune [--max-bytes N]\n"
    "\n"
    "Looks after the folder in which compiled GPU kernels are kept for other processes and\n"
    "later ones: FA_CACHE_DIR, else fagen in XDG_CACHE_HOME, else .cache/fagen in HOME. An\n"
    "empty FA_CACHE_DIR is no folder. It may be removed at any time; what is needed is made\n"
    "again.\n"
    "\n"
    "  list               each entry: kernel, arch, bytes, age, time since its last use; the\n"
    "                     latest used first. A kernel is there once for each version of the\n"
    "                     templates, of NVRTC and of fagen\n"
    "  verify             reads every entry whole: form, lengths, checksum, key. Damaged ones\n"
    "                     are named, and the exit code is 1\n"
    "  prune              removes damaged entries, and what dead processes left\n"
    "      --max-bytes N  and then the entries least lately used until the rest takes N bytes\n"
    "                     at most; K, M and G behind the number are 1024, 1024^2 and 1024^3\n"
    "\n"
    "  fagen cache list\n"
    "  fagen cache prune --max-bytes 512M\n";

static const char check_page[] =
    "fagen check SPEC... [sizes]\n"
    "\n"
    "Builds the kernel, runs it on random inputs and compares each output with a reference in\n"
    "float64; outputs of backward are dQ, dK, dV and the gradients by the parameters of variants.\n"
    "Exit code 0: all within their limits; 1: some output is wrong, or the build failed; 3: the\n"
    "spec's target cannot run here. Of several specs the gravest code counts: 1, then 2, then 3.\n"
    "\n" SIZE_OPTIONS(
        "2", "4, or the next multiple of the group", "193",
        "257") "  --scale X              softmax_scale; default 1 / sqrt(head dimension of Q and "
               "K)\n"
               "\n"
               "The reference takes a variant's expression pair by pair and has derivatives of its "
               "own. That\n"
               "the file was read as it stands is trusted; the emitted text, its derivatives and "
               "the tiles that\n"
               "it leaves out are not. Where terms cancel, as they do in gradients by parameters, "
               "the limit is\n"
               "what rounding them costs.\n"
               "\n"
               "It takes batch * heads * seqlen * seqlen_k * head dimension steps: a few hundred "
               "rows are\n"
               "quick, many thousands are not.\n"
               "\n"
               "  fagen check fwd cpu f32 d64 causal\n"
               "  fagen check fwd,bwd cpu bf16 d64,128 gqa4 causal --seqlen 129 --seqlen-k 1000\n";

static const char doctor_page[] =
    "fagen doctor\n"
    "\n"
    "Tries each part that kernels need and says in a line what it is: the processor, libtcc, the\n"
    "CUDA driver and each device, NVRTC, the cache folder, the templates. `none`: not on this\n"
    "machine, which is no fault; `WRONG`: there, and it does not work; then the exit code is 1.\n"
    "\n"
    "  fagen doctor\n";

void help_print(cli_command command) {
  const char *page = overview;
  switch (command) {
  case CLI_EMIT:
    page = emit_page;
    break;
  case CLI_LIST:
    page = list_page;
    break;
  case CLI_EXPLAIN:
    page = explain_page;
    break;
  case CLI_CHECK:
    page = check_page;
    break;
  case CLI_COMPILE:
    page = compile_page;
    break;
  case CLI_CACHE:
    page = cache_page;
    break;
  case CLI_DOCTOR:
    page = doctor_page;
    break;
  case CLI_HELP:
    break;
  }
  fputs(page, stdout);
}
