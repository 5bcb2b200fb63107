/* judge.h: whether what a search has found is right, by the mask pair by pair, at random lengths. The
   emitted text before it brings search_args, tile_bounds and keep. */
struct test_case {
  const char *words;
  bool forward, by_head, open_end; /* open_end: the mask may keep keys past the end */
  void (*search)(search_args);
  void (*draw_parameters)(search_args &, tables &);
};

/* Of one tile of the axis that is fixed, for the heads from `head` on that share its bounds. */
struct tile_row {
  const test_case &c;
  const search_args &args;
  int batch, head, heads, fixed;
};

static long kept_pairs(const tile_row &r, int walked, long *pairs) {
  const int fixed_length = r.c.forward ? r.args.seqlen_q : r.args.seqlen_k;
  const int walked_length = r.c.forward ? r.args.seqlen_k : r.args.seqlen_q;
  const int fixed_end = min((r.fixed + 1) * r.args.fixed, fixed_length);
  const int walked_end = min((walked + 1) * r.args.walked, walked_length);
  long kept = 0;
  for (int head = r.head; head < r.head + r.heads; ++head)
    for (int f = r.fixed * r.args.fixed; f < fixed_end; ++f)
      for (int w = walked * r.args.walked; w < walked_end; ++w) {
        const int row = r.c.forward ? f : w, key = r.c.forward ? w : f;
        const int q = row + r.args.seqlen_k - r.args.seqlen_q;
        kept += keep(r.args, r.batch, head, q, key);
        ++*pairs;
      }
  return kept;
}

struct tally {
  long faults, tiles, left_out, full, gaps;
};

static void judge_row(const tile_row &r, const tile_bounds &found, tally &sum) {
  const int length = r.c.forward ? r.args.seqlen_k : r.args.seqlen_q;
  for (int tile = 0; tile * r.args.walked < length; ++tile) {
    const bool in_gap = tile >= found.gap_begin && tile < found.gap_end;
    const bool walked = tile >= found.begin && tile < found.end && !in_gap;
    const bool full = tile >= found.full_begin && tile < found.full_end;
    const int past = r.c.forward ? (tile + 1) * r.args.walked : (r.fixed + 1) * r.args.fixed;
    long pairs = 0, kept = kept_pairs(r, tile, &pairs);
    const bool right = (walked || !kept) && (!full || (walked && kept == pairs)) &&
                       !(full && r.c.open_end && past > r.args.seqlen_k);
    if (!right)
      std::printf("FAULT: %s: %d x %d: tile %d of %d: %ld of %ld pairs kept, %s%s\n", r.c.words,
                  r.args.seqlen_q, r.args.seqlen_k, tile, r.fixed, kept, pairs,
                  walked ? "walked" : "left out", full ? " as full" : "");
    sum.faults += !right;
    sum.tiles += 1;
    sum.left_out += !walked;
    sum.full += full;
  }
  sum.gaps += found.gap_end > found.gap_begin;
}

static void judge_problem(const test_case &c, tally &sum) {
  tables memory;
  search_args args;
  std::memset(&args, 0, sizeof args);
  args.seqlen_q = draw(1, 200);
  args.seqlen_k = draw(1, 260);
  args.heads_q = HEADS;
  args.fixed = 16;
  args.walked = draw(0, 1) ? 16 : 32;
  c.draw_parameters(args, memory);
  const int length = c.forward ? args.seqlen_q : args.seqlen_k;
  const int rows = (length + args.fixed - 1) / args.fixed, groups = BATCH * (c.by_head ? HEADS : 1);
  std::vector<tile_bounds> found(rows * groups);
  args.searched = found.data();
  for (blockIdx.x = 0; blockIdx.x < rows * groups; ++blockIdx.x)
    for (threadIdx.x = 127; threadIdx.x >= 0; --threadIdx.x) c.search(args);
  for (int i = 0; i < rows * groups; ++i) {
    const int group = i / rows, batch = c.by_head ? group / HEADS : group;
    const int head = c.by_head ? group % HEADS : 0;
    judge_row({c, args, batch, head, c.by_head ? 1 : HEADS, i % rows}, found[i], sum);
  }
}

static int run_case(const test_case &c) {
  tally sum = {0, 0, 0, 0, 0};
  std::srand(7);
  for (int i = 0; i < 40; ++i) judge_problem(c, sum);
  std::printf("%s: %ld faults in %ld tiles; %ld left out, %ld full, %ld gaps\n", c.words,
              sum.faults, sum.tiles, sum.left_out, sum.full, sum.gaps);
  return sum.faults || !sum.left_out || !sum.full;
}
