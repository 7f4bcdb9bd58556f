# LibTorch of PyPI's wheel as imported targets on explicit file names.
#
# Not find_package(Torch): on a wheel built for CUDA that asks for a CUDA
# toolkit. These targets need none, and nothing inside the environment changes.
#
#   tw::torch            CPU
#   tw::torch_with_cuda  CPU and CUDA
#   tw::cudart           CUDA's runtime, from NVIDIA's packages
#
# In: OFFLOAD_SITE_PACKAGES, the folder that holds torch/ (and nvidia/).

set(_torch "${OFFLOAD_SITE_PACKAGES}/torch")
set(_nvidia "${OFFLOAD_SITE_PACKAGES}/nvidia/cu13")

function(_torch_library name soname path)
  if(NOT EXISTS "${path}")
    message(FATAL_ERROR "LibTorch lacks ${path}: install the versions that "
                        "requirements.txt pins, or adapt cmake/Torch.cmake")
  endif()
  add_library(tw::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(tw::${name} PROPERTIES
    IMPORTED_LOCATION "${path}" IMPORTED_SONAME "${soname}")
endfunction()

if(NOT TARGET tw::torch)
  _torch_library(c10 libc10.so "${_torch}/lib/libc10.so")
  target_include_directories(tw::c10 SYSTEM INTERFACE
    "${_torch}/include" "${_torch}/include/torch/csrc/api/include")
  _torch_library(torch_cpu libtorch_cpu.so "${_torch}/lib/libtorch_cpu.so")
  add_library(tw::torch INTERFACE IMPORTED GLOBAL)
  target_link_libraries(tw::torch INTERFACE tw::torch_cpu tw::c10)

  _torch_library(cudart libcudart.so.13 "${_nvidia}/lib/libcudart.so.13")
  target_include_directories(tw::cudart SYSTEM INTERFACE "${_nvidia}/include")
  _torch_library(torch_cuda libtorch_cuda.so "${_torch}/lib/libtorch_cuda.so")
  _torch_library(c10_cuda libc10_cuda.so "${_torch}/lib/libc10_cuda.so")
  # CUDA kernels register themselves when the library loads: keep it needed.
  add_library(tw::torch_with_cuda INTERFACE IMPORTED GLOBAL)
  target_link_libraries(tw::torch_with_cuda INTERFACE
    "-Wl,--push-state,--no-as-needed" tw::torch_cuda "-Wl,--pop-state"
    tw::c10_cuda tw::torch tw::cudart)
endif()
