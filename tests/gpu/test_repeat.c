/* test_repeat.c: the same bits in a thousand runs, also beside another stream's work, in any batch,
   over one workspace that holds rubbish, in one that is small, between a producer and a consumer,
   and from a graph. A hang is ended by a signal. */
#include "device.h"
#include "numeric/dense.h"
#include "runtime/context.h"
#include "runtime/cuda_device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RUNS = 1000 };

static const uint64_t seed = 43;
static device_functions gpu;

static const char *const cases[] = {
    "bwd cpu bf16 d64 det",
    "bwd cpu f16 d64 gqa2 causal det",
    "bwd cpu bf16 d128 gqa3 causal det",
    "bwd cpu f16 d72 det",
    "bwd cpu bf16 d72 v40 gqa2 causal det",
    "bwd cpu bf16 d256 det",
    "bwd cpu f16 d192 v128 gqa2 causal det",
    "bwd cpu f16 d160 gqa3 causal",
    "bwd cpu bf16 d128 causal det behind",
    "bwd cpu bf16 d128 gqa2",
    "bwd cpu f16 d64 causal",
};
static const trial_tensor outputs[] = {TRIAL_O, TRIAL_LSE, TRIAL_DQ, TRIAL_DK, TRIAL_DV};

static int begin(void **state) {
  const unsigned seconds = 600;
  support_begin(state);
  if (!device_open(&gpu)) fail_msg("%s", "libcuda.so.1 cannot be opened");
  expect_cu(gpu.CtxSetCurrent(((cuda_device *)support_context()->device)->current));
  alarm(seconds);
  return 0;
}

static CUstream new_stream(void) {
  CUstream stream;
  expect_cu(gpu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

static void poison(void *memory, size_t bytes, CUstream stream) {
  if (bytes) expect_cu(gpu.MemsetD8Async((uintptr_t)memory, 0xff, bytes, stream));
}

static void poison_outputs(dense *p, CUstream stream) {
  for (size_t i = 0; i < COUNT_OF(outputs); ++i)
    poison(p->device[outputs[i]], dense_bytes(p, outputs[i]), stream);
}

static void create(dense *out, const char *words, int64_t batch, int64_t seqlen_q,
                   int64_t seqlen_k) {
  dense_create(out, words, batch, 6, seqlen_q, seqlen_k);
  dense_fill_inputs(out, dense_normal, &seed);
  out->args.dlse = out->device[TRIAL_DLSE];
  dense_upload(out);
}

/* Forward and backward on the stream, over poison; the outputs come back. */
static void run(dense *p, CUstream stream) {
  poison_outputs(p, stream);
  dense_launch(support_context(), p, FA_FWD, stream);
  dense_launch(support_context(), p, FA_BWD, stream);
  dense_download(p, stream);
}

static void assert_same_outputs(const dense *a, const dense *b) {
  for (size_t i = 0; i < COUNT_OF(outputs); ++i) assert_same_bytes(a, b, outputs[i]);
}

static int is_the_same_each_time(const dense *p, trial_tensor tensor) {
  return is_repeatable(p->spec.target, p->spec.deterministic, p->spec.group > 1, tensor);
}

/* ---- A thousand runs --------------------------------------------------------------------- */

/* Work on another stream that fills the GPU for longer than a run of a case takes. */
static void keep_busy(const dense *busy, CUstream stream) {
  if (!busy) return;
  dense_launch(support_context(), busy, FA_FWD, stream);
  dense_launch(support_context(), busy, FA_BWD, stream);
}

static void assert_repeatable(const char *words, const dense *busy, CUstream other) {
  CUstream stream = new_stream();
  print_message("  %s%s\n", words, busy ? ", beside a busy stream" : "");
  dense first, again;
  create(&first, words, 1, 200, 600);
  create(&again, words, 1, 200, 600);
  run(&first, stream);
  for (int i = 1; i < RUNS; ++i) {
    keep_busy(busy, other);
    run(&again, stream);
    for (size_t n = 0; n < COUNT_OF(outputs); ++n)
      if (i == 1 || is_the_same_each_time(&first, outputs[n]))
        assert_same_bytes(&again, &first, outputs[n]);
  }
  dense_free(&first);
  dense_free(&again);
  expect_cu(gpu.StreamDestroy(stream));
}

static void a_thousand_runs_give_the_same_bits(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) assert_repeatable(cases[i], NULL, NULL);
}

/* Blocks of two kernels on one GPU start in any order, and those that wait for their turn to add to
   dQ may find no room beside the ones that they wait for. */
static void so_they_do_beside_a_busy_stream(void **state) {
  CUstream other = new_stream();
  dense busy;
  (void)state;
  create(&busy, "bwd cpu bf16 d128 gqa2 causal det", 1, 1024, 1024);
  for (size_t i = 0; i < COUNT_OF(cases); ++i) assert_repeatable(cases[i], &busy, other);
  dense_download(&busy, other);
  dense_free(&busy);
  expect_cu(gpu.StreamDestroy(other));
}

/* Turns are taken by blocks of which most have not begun when the first have. */
static void so_they_do_with_more_blocks_than_fit(void **state) {
  static const char *const words[] = {"bwd cpu bf16 d128 causal det", "bwd cpu f16 d64 gqa2 det",
                                      "bwd cpu bf16 d256 causal det"};
  const int64_t batch = 4, seqlen = 1500;
  const int runs = 100;
  CUstream stream = new_stream();
  (void)state;
  for (size_t i = 0; i < COUNT_OF(words); ++i) {
    print_message("  %s, %d sequences of %d\n", words[i], (int)batch, (int)seqlen);
    dense first, again;
    create(&first, words[i], batch, seqlen, seqlen);
    create(&again, words[i], batch, seqlen, seqlen);
    run(&first, stream);
    for (int n = 1; n < runs; ++n) {
      run(&again, stream);
      assert_same_outputs(&again, &first);
    }
    dense_free(&first);
    dense_free(&again);
  }
  expect_cu(gpu.StreamDestroy(stream));
}

/* ---- In any batch ------------------------------------------------------------------------ */

/* The arguments of one entry alone, in the memory of all. */
static void select_entry(dense *out, const dense *all, int64_t entry) {
  *out = *all;
  fa_args *args = &out->args;
  fa_tensor *tensors[] = {&args->q,    &args->k,  &args->v,  &args->o,
                          &args->dout, &args->dq, &args->dk, &args->dv};
  int64_t rows = entry * args->heads_q * args->seqlen_q;
  args->batch = 1;
  args->lse += rows;
  args->dlse += rows;
  for (size_t i = 0; i < COUNT_OF(tensors); ++i)
    tensors[i]->data = (uint16_t *)tensors[i]->data + entry * tensors[i]->stride_batch;
}

static void assert_entries_same(const dense *many, const dense *alone, int64_t count) {
  for (size_t i = 0; i < COUNT_OF(outputs); ++i) {
    size_t bytes = dense_bytes(many, outputs[i]) / (size_t)many->shapes[outputs[i]].extent[0];
    const char *a = many->memory[outputs[i]], *b = alone->memory[outputs[i]];
    if (!is_the_same_each_time(many, outputs[i])) continue;
    for (int64_t entry = 0; entry < count; ++entry)
      if (memcmp(a + (size_t)entry * bytes, b + (size_t)entry * bytes, bytes))
        fail_msg("%s of entry %d of %d is not what it is alone", trial_tensor_name(outputs[i]),
                 (int)entry, (int)count);
  }
}

static void assert_alone_as_among_others(const char *words, int64_t seqlen_q, int64_t seqlen_k) {
  static const int64_t counts[] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 64};
  const int64_t most = 64;
  dense many, alone, one;
  create(&many, words, most, seqlen_q, seqlen_k);
  create(&alone, words, most, seqlen_q, seqlen_k);
  for (int64_t entry = 0; entry < most; ++entry) {
    select_entry(&one, &alone, entry);
    dense_launch(support_context(), &one, FA_FWD, NULL);
    dense_launch(support_context(), &one, FA_BWD, NULL);
  }
  dense_download(&alone, NULL);
  for (size_t i = 0; i < COUNT_OF(counts); ++i) {
    many.args.batch = counts[i];
    run(&many, NULL);
    assert_entries_same(&many, &alone, counts[i]);
  }
  dense_free(&many);
  dense_free(&alone);
}

static void an_entry_is_the_same_alone_and_among_1_to_63_others(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) {
    assert_alone_as_among_others(cases[i], 70, 150);
    assert_alone_as_among_others(cases[i], 1, 40);
  }
}

/* ---- One workspace ----------------------------------------------------------------------- */

/* A workspace large enough for both problems of one spec. */
static size_t shared_workspace(void **out, const dense *a, const dense *b) {
  const fa_kernel *kernel;
  size_t bytes, more;
  expect_ok(fa_get_kernel(&kernel, support_context(), &a->spec));
  fa_args args_a = a->args, args_b = b->args;
  args_a.target = args_b.target = 0;
  expect_ok(fa_workspace_size(&bytes, kernel, &args_a));
  expect_ok(fa_workspace_size(&more, kernel, &args_b));
  if (more > bytes) bytes = more;
  expect_ok(fa_memory_alloc(out, support_context(), bytes));
  return bytes;
}

static void assert_workspace_needs_no_clearing(const char *words) {
  CUstream stream = new_stream();
  dense large, small, large_again, small_again;
  void *workspace;
  create(&large, words, 2, 300, 260);
  create(&small, words, 1, 70, 140);
  run(&large, stream);
  run(&small, stream);
  create(&large_again, words, 2, 300, 260);
  create(&small_again, words, 1, 70, 140);
  size_t bytes = shared_workspace(&workspace, &large, &small);
  dense *const again[] = {&large_again, &small_again};
  for (int i = 0; i < 2; ++i) {
    again[i]->args.workspace = workspace;
    again[i]->args.workspace_size = bytes;
    dense_launch(support_context(), again[i], FA_FWD, stream);
  }
  for (int run_index = 0; run_index < 100; ++run_index)
    for (int i = 0; i < 2; ++i) {
      if (run_index % 2) poison(workspace, bytes, stream); /* else what the other problem left */
      dense_launch(support_context(), again[i], FA_BWD, stream);
    }
  dense_download(&large_again, stream);
  dense_download(&small_again, stream);
  assert_same_outputs(&large_again, &large);
  assert_same_outputs(&small_again, &small);
  fa_memory_free(support_context(), workspace);
  dense *const all[] = {&large, &small, &large_again, &small_again};
  for (int i = 0; i < 4; ++i) dense_free(all[i]);
  expect_cu(gpu.StreamDestroy(stream));
}

static void calls_share_a_workspace_that_nobody_clears(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) assert_workspace_needs_no_clearing(cases[i]);
}

/* ---- In less workspace ------------------------------------------------------------------- */

static size_t bytes_within(const dense *p, size_t limit) {
  const fa_kernel *kernel;
  size_t bytes;
  fa_args args = p->args;
  args.target = 0;
  args.workspace_limit = limit;
  expect_ok(fa_get_kernel(&kernel, support_context(), &p->spec));
  expect_ok(fa_workspace_size(&bytes, kernel, &args));
  return bytes;
}

/* From the least that the plan can do with to nearly all: few heads at a time share the sums of dQ. */
static void assert_same_within_limits(const char *words) {
  const int limits = 4, runs = 10;
  CUstream stream = new_stream();
  dense whole, limited;
  create(&whole, words, 5, 300, 700);
  create(&limited, words, 5, 300, 700);
  run(&whole, stream);
  const size_t all = bytes_within(&whole, 0), least = bytes_within(&whole, 1);
  print_message("  %s: %zu bytes, at least %zu\n", words, all, least);
  assert_true(2 * least < all);
  for (int i = 0; i < limits; ++i) {
    limited.args.workspace_limit = least + 2048 + (all - least) * (size_t)i / (size_t)limits;
    assert_true(bytes_within(&limited, limited.args.workspace_limit) < all);
    for (int n = 0; n < runs; ++n) {
      run(&limited, stream);
      assert_same_outputs(&limited, &whole);
    }
  }
  dense_free(&whole);
  dense_free(&limited);
  expect_cu(gpu.StreamDestroy(stream));
}

static void a_limit_of_the_workspace_changes_no_result(void **state) {
  static const char *const words[] = {"bwd cpu bf16 d128 causal det", "bwd cpu f16 d64 gqa2",
                                      "bwd cpu bf16 d256", "bwd cpu f16 d192 v128 det",
                                      "bwd cpu bf16 d128 gqa3 behind"};
  (void)state;
  if (target_of_tests() != FA_TARGET_SM90) {
    print_message("skipped: only sm90 has plans for less than all\n");
    skip();
  }
  for (size_t i = 0; i < COUNT_OF(words); ++i) assert_same_within_limits(words[i]);
}

/* ---- In a chain of work ------------------------------------------------------------------ */

static void copy(void *to, const void *from, size_t bytes, CUstream stream) {
  const cuda_device *device = support_context()->device;
  expect_cu(device->cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, stream));
}

/* A chain's first launch must wait for the K that a slow producer writes, its later ones for each
   other and for the last user of the workspace, and what consumes dQ, and then destroys it, for all
   of them. Nothing but the stream's order says so, while programmatic launches start early. */
static void assert_chain_in_order(const char *words, const dense *busy) {
  CUstream stream = new_stream();
  dense wanted, got[2];
  void *workspace, *k, *dq[2];
  create(&wanted, words, 1, 200, 600);
  run(&wanted, stream);
  for (int i = 0; i < 2; ++i) {
    create(&got[i], words, 1, 200, 600);
    expect_ok(fa_memory_alloc(&dq[i], support_context(), dense_bytes(&wanted, TRIAL_DQ)));
  }
  expect_ok(fa_memory_alloc(&k, support_context(), dense_bytes(&wanted, TRIAL_K)));
  copy(k, wanted.device[TRIAL_K], dense_bytes(&wanted, TRIAL_K), stream);
  size_t bytes = shared_workspace(&workspace, &wanted, &wanted);
  for (int round = 0; round < RUNS; ++round) {
    poison(workspace, bytes, stream);
    for (int i = 0; i < 2; ++i) {
      poison_outputs(&got[i], stream);
      poison(got[i].device[TRIAL_K], dense_bytes(&wanted, TRIAL_K), stream);
    }
    dense_launch(support_context(), busy, FA_FWD, stream);
    for (int i = 0; i < 2; ++i) {
      got[i].args.workspace = workspace;
      got[i].args.workspace_size = bytes;
      copy(got[i].device[TRIAL_K], k, dense_bytes(&wanted, TRIAL_K), stream);
      dense_launch(support_context(), &got[i], FA_FWD, stream);
      dense_launch(support_context(), &got[i], FA_BWD, stream);
      copy(dq[i], got[i].device[TRIAL_DQ], dense_bytes(&wanted, TRIAL_DQ), stream);
      poison(got[i].device[TRIAL_DQ], dense_bytes(&wanted, TRIAL_DQ), stream);
    }
    for (int i = 0; i < 2; ++i) {
      copy(got[i].device[TRIAL_DQ], dq[i], dense_bytes(&wanted, TRIAL_DQ), stream);
      dense_download(&got[i], stream);
      assert_same_outputs(&got[i], &wanted);
    }
  }
  fa_memory_free(support_context(), workspace);
  fa_memory_free(support_context(), k);
  for (int i = 0; i < 2; ++i) {
    fa_memory_free(support_context(), dq[i]);
    dense_free(&got[i]);
  }
  dense_free(&wanted);
  expect_cu(gpu.StreamDestroy(stream));
}

static void a_chain_keeps_the_order_of_its_stream(void **state) {
  dense busy;
  (void)state;
  create(&busy, "bwd cpu bf16 d128 gqa2 causal det", 1, 1024, 1024);
  for (size_t i = 0; i < COUNT_OF(cases); ++i) assert_chain_in_order(cases[i], &busy);
  dense_free(&busy);
}

/* ---- From a graph ------------------------------------------------------------------------ */

static void fill(dense *p, uint64_t with) {
  dense_fill_inputs(p, dense_normal, &with);
  dense_upload(p);
}

/* Forward and backward, with workspace of the stream's own pool. */
static CUgraphExec captured(const dense *p, CUstream stream) {
  CUgraph graph;
  CUgraphExec exec;
  expect_cu(gpu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  dense_launch(support_context(), p, FA_FWD, stream);
  dense_launch(support_context(), p, FA_BWD, stream);
  expect_cu(gpu.StreamEndCapture(stream, &graph));
  expect_cu(gpu.GraphInstantiate(&exec, graph, 0));
  expect_cu(gpu.GraphDestroy(graph));
  return exec;
}

static void assert_graph_replays(const char *words) {
  CUstream stream = new_stream();
  dense direct, replayed;
  create(&direct, words, 1, 200, 600);
  create(&replayed, words, 1, 200, 600);
  run(&direct, stream); /* what is cold is not captured */
  CUgraphExec exec = captured(&replayed, stream);
  for (uint64_t round = 1; round <= 3; ++round) {
    fill(&direct, seed + round);
    fill(&replayed, seed + round);
    run(&direct, stream);
    poison_outputs(&replayed, stream);
    expect_cu(gpu.GraphLaunch(exec, stream));
    dense_download(&replayed, stream);
    assert_same_outputs(&replayed, &direct);
  }
  expect_cu(gpu.GraphExecDestroy(exec));
  dense_free(&direct);
  dense_free(&replayed);
  expect_cu(gpu.StreamDestroy(stream));
}

static void a_graph_replays_with_new_inputs(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(cases); ++i) assert_graph_replays(cases[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thousand_runs_give_the_same_bits),
      cmocka_unit_test(so_they_do_beside_a_busy_stream),
      cmocka_unit_test(so_they_do_with_more_blocks_than_fit),
      cmocka_unit_test(an_entry_is_the_same_alone_and_among_1_to_63_others),
      cmocka_unit_test(calls_share_a_workspace_that_nobody_clears),
      cmocka_unit_test(a_limit_of_the_workspace_changes_no_result),
      cmocka_unit_test(a_chain_keeps_the_order_of_its_stream),
      cmocka_unit_test(a_graph_replays_with_new_inputs),
  };
  if (on_gpu()) return cmocka_run_group_tests(tests, begin, support_end);
  printf("SKIP test_repeat: FAGEN_TEST_TARGET names no GPU target\n");
  return 77;
}
