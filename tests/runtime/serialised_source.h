/* serialised_source.h: a kernel of wgmma products that the compiler has to run one by one: their
   accumulator is touched before it is waited for. */
#ifndef FAGEN_TESTS_RUNTIME_SERIALISED_SOURCE_H
#define FAGEN_TESTS_RUNTIME_SERIALISED_SOURCE_H

#define SERIALISED_SOURCE                                                                    \
  "extern \"C\" __global__ void serialised(float *out, unsigned long long a) {\n"            \
  "  float c[4] = {0, 0, 0, 0};\n"                                                           \
  "  for (int i = 0; i < 8; ++i) {\n"                                                        \
  "    asm volatile(\"wgmma.fence.sync.aligned;\");\n"                                       \
  "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 \"\n"                \
  "                 \"{%0, %1, %2, %3}, %4, %4, 1, 1, 1, 0, 0;\"\n"                          \
  "                 : \"+f\"(c[0]), \"+f\"(c[1]), \"+f\"(c[2]), \"+f\"(c[3]) : \"l\"(a));\n" \
  "    asm volatile(\"wgmma.commit_group.sync.aligned;\");\n"                                \
  "    c[0] *= 2.0f;\n"                                                                      \
  "  }\n"                                                                                    \
  "  asm volatile(\"wgmma.wait_group.sync.aligned 0;\");\n"                                  \
  "  out[threadIdx.x] = c[0] + c[1] + c[2] + c[3];\n"                                        \
  "}\n"

#endif
