% -- Products of one warp and copies to shared memory, one instruction each, for kernels that run on any
% -- architecture since 8.0.
/* c += a b, 16 x 8 from 16 x 16 and 16 x 8. With g = lane / 4 and t = lane % 4 a lane holds
 *   c: rows g, g, g + 8, g + 8 of columns 2t, 2t + 1, 2t, 2t + 1;
 *   a: rows g, g + 8, g, g + 8, of columns 2t and 2t + 1, the last two 8 further right;
 *   b: rows 2t and 2t + 1 of column g, b1 8 further down. */
DEVICE void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.${spec.dtype}.${spec.dtype}.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 matrices of 16-bit values, rows at the addresses of lanes 0-7, 8-15, 16-23, 24-31: a
 * lane gets columns 2t and 2t + 1 of row g of each. */
DEVICE void load_matrices(unsigned (&m)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}

/* Starts copying 16 bytes to shared memory: with bytes = 16 from memory, with 0 zeros. */
DEVICE void copy_async(unsigned to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/* Closes the group of the copies started since the last one. */
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }

/* Waits for this thread's copies but those of the last `pending` groups. */
template <int pending> DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}
