/* The main program of kernels run under a sanitizer: one launch, read from a file, its buffers written to another.
 *
 * Before it, the generated text defines `futad_kernels`, a table of launchers.  The file, in 64-bit words:
 * kernel, grid (3), block (3), bytes of dynamic shared memory, seed, lockstep, buffers, the size of each, arguments,
 * and for each argument three words: 0 a value, 1 a pointer, 2 a null pointer; its size or its buffer; its place among
 * the values or in the buffer.  Then the bytes of the values, preceded by their number, and those of the buffers.
 * Every buffer becomes a heap block of its own, so that a sanitizer knows its end.
 */
#ifndef FUTAD_EMULATE_MAIN_H
#define FUTAD_EMULATE_MAIN_H

static void futad_read(FILE *f, void *to, size_t bytes) {
  if (bytes && fread(to, 1, bytes, f) != bytes) {
    fprintf(stderr, "futad: the request is too short\n");
    exit(4);
  }
}

static long long futad_word(FILE *f) {
  long long w;
  futad_read(f, &w, sizeof w);
  return w;
}

int main(int argc, char **argv) {
  if (argc != 3) return 4;
  FILE *f = fopen(argv[1], "rb");
  if (!f) return 4;
  futad_emu::Launch launch;
  long long kernel = futad_word(f);
  for (int i = 0; i < 3; i++) launch.grid[i] = (unsigned)futad_word(f);
  for (int i = 0; i < 3; i++) launch.block[i] = (unsigned)futad_word(f);
  launch.dynamic_bytes = futad_word(f);
  launch.seed = futad_word(f);
  launch.lockstep = futad_word(f);
  long long buffers = futad_word(f);
  long long *sizes = (long long *)calloc(buffers + 1, sizeof *sizes);
  for (long long i = 0; i < buffers; i++) sizes[i] = futad_word(f);
  long long count = futad_word(f);
  long long *about = (long long *)calloc(3 * count + 1, sizeof *about);
  for (long long i = 0; i < 3 * count; i++) about[i] = futad_word(f);
  long long value_bytes = futad_word(f);
  char *values = (char *)malloc(value_bytes + 1);
  futad_read(f, values, value_bytes);
  char **memory = (char **)calloc(buffers + 1, sizeof *memory);
  for (long long i = 0; i < buffers; i++) {
    memory[i] = (char *)malloc(sizes[i]);
    futad_read(f, memory[i], sizes[i]);
  }
  fclose(f);
  void **pointers = (void **)calloc(count + 1, sizeof *pointers), **args = (void **)calloc(count + 1, sizeof *args);
  for (long long i = 0; i < count; i++) {
    const long long *a = about + 3 * i;
    if (a[0] == 1) pointers[i] = memory[a[1]] + a[2];
    args[i] = a[0] == 0 ? (void *)(values + a[2]) : (void *)&pointers[i];
  }
  char message[512];
  if (futad_kernels[kernel](&launch, args, message, sizeof message)) {
    fprintf(stderr, "%s\n", message);
    return 3;
  }
  f = fopen(argv[2], "wb");
  if (!f) return 4;
  for (long long i = 0; i < buffers; i++) fwrite(memory[i], 1, sizes[i], f);
  fclose(f);
  return 0;
}

#endif
