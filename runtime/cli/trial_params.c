/* trial_params.c: the parameters of a trial on the device, and the gradients by them. */
#include "trial_state.h"

#include "compare.h"
#include "storage.h"

#include <stdio.h>
#include <stdlib.h>

int trial_has_gradient(const trial *t, int slot) {
  return t->pass == FA_BWD && !t->options->without_param_gradients &&
         t->drawn.items[slot].declared->grad;
}

static view gradient_shape(const drawn_param *param) {
  view shape = param->shape;
  shape.dtype = FA_F32;
  return shape;
}

static fa_status create_table(trial *t, int slot) {
  const drawn_param *param = &t->drawn.items[slot];
  buffer *memory = &t->params[slot].table;
  const view *shape = &param->shape;
  int64_t at[4] = {0};
  if (!param_is_table(param->declared)) return FA_OK;
  size_t bytes = (size_t)view_count(shape->extent) * storage_bytes(shape->dtype);
  fa_status status = buffer_create(memory, t->context, bytes, t->fill);
  if (status || bytes == 0) return status;
  do {
    buffer_write(memory, shape, at, param->values[view_index(shape, at)]);
  } while (view_next(at, shape->extent));
  return buffer_upload(memory);
}

static fa_status create_gradient(trial *t, int slot) {
  const view shape = gradient_shape(&t->drawn.items[slot]);
  param_memory *to = &t->params[slot];
  size_t bytes = (size_t)view_count(shape.extent) * sizeof(float);
  fa_status status = trial_allocate(&to->got, &shape);
  if (!status) status = trial_allocate(&to->wanted, &shape);
  if (!status) status = trial_allocate(&to->noise, &shape);
  if (!status) status = buffer_create(&to->gradient, t->context, bytes, t->fill);
  return status;
}

fa_status trial_params_create(trial *t) {
  fa_status status = FA_OK;
  for (int slot = 0; slot < t->drawn.count && !status; ++slot) {
    status = create_table(t, slot);
    if (!status && trial_has_gradient(t, slot)) status = create_gradient(t, slot);
  }
  return status;
}

void trial_params_set(fa_param *out, const trial *t, int pass) {
  for (int slot = 0; slot < t->drawn.count; ++slot) {
    const drawn_param *param = &t->drawn.items[slot];
    const param_memory *memory = &t->params[slot];
    out[slot] = (fa_param){.name = param->name};
    if (!param_is_table(param->declared)) out[slot].value = param->values[0];
    if (memory->table.device) {
      out[slot].data = buffer_payload(&memory->table, 0);
      out[slot].length = view_count(param->shape.extent);
    }
    if (pass == FA_BWD && memory->gradient.device)
      out[slot].grad = (float *)buffer_payload(&memory->gradient, 0);
  }
}

static fa_status collect_table(trial *t, int slot) {
  buffer *memory = &t->params[slot].table;
  if (!memory->device) return FA_OK;
  fa_status status = buffer_download(memory);
  if (!status && !buffer_intact(memory, 0)) t->damaged = t->drawn.items[slot].name;
  return status;
}

static fa_status collect_gradient(trial *t, int slot) {
  const view shape = gradient_shape(&t->drawn.items[slot]);
  param_memory *to = &t->params[slot];
  int64_t at[4] = {0};
  if (!to->gradient.device) return FA_OK;
  fa_status status = buffer_download(&to->gradient);
  if (status) return status;
  if (view_count(shape.extent) > 0) do {
      to->got[view_index(&shape, at)] = buffer_accept(&to->gradient, &shape, at);
    } while (view_next(at, shape.extent));
  if (!buffer_intact(&to->gradient, 0)) t->damaged = t->drawn.items[slot].name;
  return FA_OK;
}

fa_status trial_params_collect(trial *t) {
  fa_status status = FA_OK;
  for (int slot = 0; slot < t->drawn.count && !status; ++slot) {
    status = collect_table(t, slot);
    if (!status) status = collect_gradient(t, slot);
  }
  return status;
}

/* Hands the values of each gradient over to the result. */
void trial_params_report(trial_result *out, trial *t) {
  for (int slot = 0; slot < t->drawn.count; ++slot) {
    const view shape = gradient_shape(&t->drawn.items[slot]);
    param_memory *from = &t->params[slot];
    if (!trial_has_gradient(t, slot)) continue;
    trial_output *output = &out->outputs[out->num_outputs++];
    output->tensor = TRIAL_PARAM;
    snprintf(output->name, sizeof output->name, "d %s", t->drawn.items[slot].name);
    trial_report(output, &shape, from->got, from->wanted, from->rounding);
    from->got = from->wanted = NULL;
  }
}

void trial_params_free(trial *t) {
  for (int slot = 0; slot < t->drawn.count; ++slot) {
    param_memory *param = &t->params[slot];
    buffer_free(&param->table);
    buffer_free(&param->gradient);
    free(param->got);
    free(param->wanted);
    free(param->noise);
  }
  drawn_free(&t->drawn);
}
