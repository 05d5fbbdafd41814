/* Vector functions for clang, which ignores what GCC is told by an attribute.  With -fveclib=AMDLIBM (clang 19 and
 * later, see futad/runtime/cc.py) its loops call functions by the names of AMD's library, in all widths; by those of
 * glibc's (-fveclib=libmvec) it knows five functions, and no vectors of 512 bits.  Here each of these names is a jump to
 * glibc's function, or to ours of that name (vector_functions.h): all take and return vectors in registers. */
#define FUTAD_JUMP(from, to)                                               \
  __asm__(".pushsection .text\n.weak amd_v" from "\n.hidden amd_v" from    \
          "\n.type amd_v" from ", @function\namd_v" from ":\n\tjmp _ZGV" to \
          "@PLT\n.popsection");
#define FUTAD_VECTORS(f, v)                    \
  FUTAD_JUMP("rd2_" #f, "bN2" v "_" #f)        \
  FUTAD_JUMP("rd4_" #f, "dN4" v "_" #f)        \
  FUTAD_JUMP("rd8_" #f, "eN8" v "_" #f)        \
  FUTAD_JUMP("rs4_" #f "f", "bN4" v "_" #f "f") \
  FUTAD_JUMP("rs8_" #f "f", "dN8" v "_" #f "f") \
  FUTAD_JUMP("rs16_" #f "f", "eN16" v "_" #f "f")

/* One line for each function with vector variants, made of the records of operations: futad/core/scalarlib.py. */
#include "scalar_vectors.h"

/* Functions of doubles that it does not know in all widths, of those that it does (W. Kahan's way to the difference of
 * an exponential, or of a logarithm's argument, from one: the error in u cancels in the quotient). */
FUTAD_INLINE double futad_clang_expm1(double x) {
  const double u = exp(x), d = u - 1.0, r = d * (x / log(u));
  return u == 1.0 ? x : d == -1.0 || u == FUTAD_INF ? d : r;
}
FUTAD_INLINE double futad_clang_log1p(double x) {
  const double u = 1.0 + x, r = log(u) * (x / (u - 1.0));
  return u == 1.0 ? x : u == FUTAD_INF ? u : r;
}
FUTAD_INLINE double futad_clang_tanh(double x) {
  const double t = -2.0 * __builtin_fabs(x), u = exp(t), d = u < 0.5 ? u - 1.0 : futad_clang_expm1(t);
  return __builtin_copysign(d / (2.0 + d), x);
}
#define expm1 futad_clang_expm1
#define log1p futad_clang_log1p
#define tanh futad_clang_tanh
