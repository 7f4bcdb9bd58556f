// The rows whose kernel reads or writes elements on the host, and so has
// another form for devices: ATen calls alone, which hold wherever tensors lie.
// Rows whose forms differ in one function only ask usesDeviceForms() there.

#ifndef OFFLOAD_RUNTIME_KERNELS_DEVICEFORMS_H
#define OFFLOAD_RUNTIME_KERNELS_DEVICEFORMS_H

#define OFFLOAD_DEVICE_FORMS                                                   \
  OFFLOAD_DEVICE_FORM(Pow)                                                     \
  OFFLOAD_DEVICE_FORM(PRelu)                                                   \
  OFFLOAD_DEVICE_FORM(MatMul)                                                  \
  OFFLOAD_DEVICE_FORM(Gemm)                                                    \
  OFFLOAD_DEVICE_FORM(Conv)                                                    \
  OFFLOAD_DEVICE_FORM(ConvTranspose)                                           \
  OFFLOAD_DEVICE_FORM(MaxPool)                                                 \
  OFFLOAD_DEVICE_FORM(AveragePool)                                             \
  OFFLOAD_DEVICE_FORM(BatchNormalization)                                      \
  OFFLOAD_DEVICE_FORM(InstanceNormalization)                                   \
  OFFLOAD_DEVICE_FORM(GroupNormalization)                                      \
  OFFLOAD_DEVICE_FORM(LayerNormalization)                                      \
  OFFLOAD_DEVICE_FORM(RMSNormalization)                                        \
  OFFLOAD_DEVICE_FORM(ArgMax)                                                  \
  OFFLOAD_DEVICE_FORM(ArgMin)                                                  \
  OFFLOAD_DEVICE_FORM(TopK)                                                    \
  OFFLOAD_DEVICE_FORM(CumSum)                                                  \
  OFFLOAD_DEVICE_FORM(Gather)                                                  \
  OFFLOAD_DEVICE_FORM(GatherElements)                                          \
  OFFLOAD_DEVICE_FORM(GatherND)                                                \
  OFFLOAD_DEVICE_FORM(ScatterElements)                                         \
  OFFLOAD_DEVICE_FORM(ScatterND)                                               \
  OFFLOAD_DEVICE_FORM(OneHot)                                                  \
  OFFLOAD_DEVICE_FORM(Trilu)                                                   \
  OFFLOAD_DEVICE_FORM(EyeLike)                                                 \
  OFFLOAD_DEVICE_FORM(ConstantOfShape)                                         \
  OFFLOAD_DEVICE_FORM(Range)                                                   \
  OFFLOAD_DEVICE_FORM(Attention)                                               \
  OFFLOAD_DEVICE_FORM(RotaryEmbedding)                                         \
  OFFLOAD_DEVICE_FORM(DequantizeLinear)                                        \
  OFFLOAD_DEVICE_FORM(QuantizeLinear)                                          \
  OFFLOAD_DEVICE_FORM(Offload_Linear)                                          \
  OFFLOAD_DEVICE_FORM(Offload_SGD)                                             \
  OFFLOAD_DEVICE_FORM(Offload_AdamW)

#endif // OFFLOAD_RUNTIME_KERNELS_DEVICEFORMS_H
