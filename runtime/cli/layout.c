/* layout.c: strides and offsets of the layouts. */
#include "layout.h"

#include "storage.h"

static int is_by_key(int tensor) {
  return tensor == TRIAL_K || tensor == TRIAL_V || tensor == TRIAL_DK || tensor == TRIAL_DV;
}

/* Whether the tensor has one value a row, in f32. */
static int is_by_row(int tensor) {
  return tensor == TRIAL_LSE || tensor == TRIAL_DLSE || tensor == TRIAL_D;
}

static int is_in_v(int tensor) {
  return tensor == TRIAL_V || tensor == TRIAL_DV || tensor == TRIAL_O || tensor == TRIAL_DOUT;
}

void layout_shapes(view shapes[TRIAL_TENSORS], const fa_spec *spec, const cli_sizes *sizes) {
  for (int i = 0; i < TRIAL_TENSORS; ++i) {
    view *shape = &shapes[i];
    int64_t *extent = shape->extent;
    extent[0] = sizes->batch;
    extent[1] = is_by_key(i) ? sizes->seqlen_k : sizes->seqlen_q;
    extent[2] = is_by_key(i) ? sizes->heads_kv : sizes->heads_q;
    extent[3] = is_by_row(i) ? 1 : is_in_v(i) ? spec->dim_v : spec->dim_qk;
    shape->dtype = is_by_row(i) ? FA_F32 : spec->dtype;
    shape->offset = 0;
    view_dense(shape->stride, extent);
    if (!is_by_row(i)) continue;
    shape->stride[1] = 1;
    shape->stride[2] = extent[1];
  }
}

static void place_by_head(view *tensor) {
  const int64_t *extent = tensor->extent;
  tensor->stride[3] = 1;
  tensor->stride[1] = extent[3];
  tensor->stride[2] = extent[1] * extent[3];
  tensor->stride[0] = extent[2] * tensor->stride[2];
}

/* Gaps of 3, 5 and 7 units, and a first element one unit away from the aligned address. */
static void place_wide(view *tensor, int64_t unit) {
  const int64_t *extent = tensor->extent;
  tensor->stride[3] = 1;
  tensor->stride[2] = extent[3] + 3 * unit;
  tensor->stride[1] = extent[2] * tensor->stride[2] + 5 * unit;
  tensor->stride[0] = extent[1] * tensor->stride[1] + 7 * unit;
  tensor->offset = (size_t)unit * storage_bytes(tensor->dtype);
}

/* Three tensors side by side in the rows of one. */
static void place_packed(placement places[], int first, const int members[3]) {
  int64_t columns = 0, rows = 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t *extent = places[members[i]].tensor.extent;
    columns += extent[2] * extent[3];
    if (rows < extent[1]) rows = extent[1];
  }
  size_t offset = 0;
  for (int i = 0; i < 3; ++i) {
    view *tensor = &places[members[i]].tensor;
    places[members[i]].buffer = first;
    tensor->offset = offset;
    tensor->stride[0] = rows * columns;
    tensor->stride[1] = columns;
    offset += (size_t)(tensor->extent[2] * tensor->extent[3]) * storage_bytes(tensor->dtype);
  }
}

void layout_place(placement places[TRIAL_TENSORS], size_t bytes[TRIAL_TENSORS],
                  const view shapes[TRIAL_TENSORS], trial_layout layout, int any_stride) {
  static const int inputs[3] = {TRIAL_Q, TRIAL_K, TRIAL_V};
  static const int gradients[3] = {TRIAL_DQ, TRIAL_DK, TRIAL_DV};
  for (int i = 0; i < TRIAL_TENSORS; ++i) {
    places[i] = (placement){i, shapes[i]};
    bytes[i] = 0;
    if (is_by_row(i)) continue;
    if (layout == TRIAL_BHSD) place_by_head(&places[i].tensor);
    if (layout == TRIAL_WIDE) place_wide(&places[i].tensor, any_stride ? 1 : 8);
  }
  if (layout == TRIAL_PACKED) {
    place_packed(places, TRIAL_Q, inputs);
    place_packed(places, TRIAL_DQ, gradients);
  }
  for (int i = 0; i < TRIAL_TENSORS; ++i) {
    const view *tensor = &places[i].tensor;
    size_t end = (size_t)view_span(tensor) * storage_bytes(tensor->dtype) + tensor->offset;
    if (end > bytes[places[i].buffer]) bytes[places[i].buffer] = end;
  }
}
