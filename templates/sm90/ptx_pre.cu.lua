% -- The few wrappers that a preprocess alone needs.
#define DEVICE __device__ __forceinline__

DEVICE float add(float a, float b) {
  float sum;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}

DEVICE float subtract(float a, float b) {
  float difference;
  asm("sub.rn.f32 %0, %1, %2;" : "=f"(difference) : "f"(a), "f"(b));
  return difference;
}

/* a * b + c, rounded once. */
DEVICE float multiply_add(float a, float b, float c) {
  float sum;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
  return sum;
}

/* Lets the next launch of the stream begin, as far as it does not wait for this one. */
DEVICE void launch_next() { asm volatile("griddepcontrol.launch_dependents;" : : : "memory"); }
