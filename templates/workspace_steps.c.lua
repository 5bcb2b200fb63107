% -- How a plan divides its workspace.
/* Adds a named part to the workspace; gives its address, NULL while only sizes are asked for. */
static void *add_part(fa_plan *out, const fa_problem *in, const char *name, long long bytes) {
  fa_plan_part *part = &out->parts[out->num_parts++];
  part->name = name;
  part->offset = out->workspace_bytes;
  part->bytes = ((unsigned long long)bytes + 255) / 256 * 256;
  out->workspace_bytes += part->bytes;
  return in->workspace ? in->workspace + part->offset : 0;
}
