% -- How a plan hands tensors on.
static void set_tensor(tensor *to, const fa_plan_tensor *from) {
  to->data = from->data;
  to->stride_batch = from->stride_batch;
  to->stride_seq = from->stride_seq;
  to->stride_head = from->stride_head;
}
