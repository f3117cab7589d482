#pragma once

#include <cstddef>
#include <span>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace tandem {

/// A view: a pointer, a shape and an element type. It owns nothing; arenas do (device/arena.h), and
/// they outlive the views into them. Elements are dense, the last extent fastest. Copying a Tensor
/// copies the view. The memory lies where the context that made it keeps its memory.
class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, const Shape& shape, DType dtype = DType::f32)
      : data_(data), shape_(shape), dtype_(dtype) {}

  bool defined() const { return data_ != nullptr; }
  void* raw() const { return data_; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::int64_t elements() const { return shape_.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype_); }

  /// The elements as T. Throws Error where T is not the tensor's dtype.
  template <typename T>
  T* data() const {
    TANDEM_CHECK(DTypeOf<T>::value == dtype_, "a {} tensor read as {}", name_of(dtype_),
                 name_of(DTypeOf<T>::value));
    return static_cast<T*>(data_);
  }
  template <typename T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(elements())};
  }

 private:
  void* data_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::f32;
};

}  // namespace tandem
