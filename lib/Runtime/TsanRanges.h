// Tells ThreadSanitizer what uninstrumented kernels read and write.
//
// LibTorch is not instrumented, so a race between a kernel and a copy would go
// unseen. In other builds these functions are empty.

#ifndef OFFLOAD_LIB_RUNTIME_TSANRANGES_H
#define OFFLOAD_LIB_RUNTIME_TSANRANGES_H

#include <cstddef>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OFFLOAD_HAS_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define OFFLOAD_HAS_TSAN 1
#endif

#ifdef OFFLOAD_HAS_TSAN
extern "C" void __tsan_read_range(void *address, size_t bytes);
extern "C" void __tsan_write_range(void *address, size_t bytes);
#endif

namespace offload::rt {

inline void tellRead([[maybe_unused]] const void *address,
                     [[maybe_unused]] int64_t bytes) {
#ifdef OFFLOAD_HAS_TSAN
  if (bytes > 0)
    __tsan_read_range(const_cast<void *>(address), static_cast<size_t>(bytes));
#endif
}

inline void tellWrite([[maybe_unused]] void *address,
                      [[maybe_unused]] int64_t bytes) {
#ifdef OFFLOAD_HAS_TSAN
  if (bytes > 0)
    __tsan_write_range(address, static_cast<size_t>(bytes));
#endif
}

} // namespace offload::rt

#endif // OFFLOAD_LIB_RUNTIME_TSANRANGES_H
