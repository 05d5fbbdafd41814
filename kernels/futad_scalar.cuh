/* Every scalar operation of the table for the device: `prelude.h` compiled as CUDA C. */
#ifndef FUTAD_SCALAR_CUH
#define FUTAD_SCALAR_CUH
#include "device.cuh"
#include "prelude.h"
#endif
