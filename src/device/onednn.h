#pragma once

// The one place that knows oneDNN's versions: primitive descriptors took an operation descriptor in
// 2.x and take its arguments directly in 3.x. Everything else says
// `onednn::make_pd<Primitive>(...)` with 3.x's arguments. Included by .cpp files only.

#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/cpu_context.h"

namespace tandem {

struct CpuContext::OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

namespace onednn {

#if DNNL_VERSION_MAJOR >= 3

/// Primitive descriptor of a forward primitive: make_pd<P>(engine, attributes, 3.x arguments...).
template <typename Primitive, typename... Args>
typename Primitive::primitive_desc make_pd(const dnnl::engine& engine,
                                           const dnnl::primitive_attr& attributes, Args&&... args) {
  return typename Primitive::primitive_desc(engine, std::forward<Args>(args)..., attributes);
}

/// Primitive descriptor of a backward primitive, with the forward one as the last argument: `hint`.
template <typename Primitive, typename Hint, typename... Args>
typename Primitive::primitive_desc make_backward_pd(const dnnl::engine& engine,
                                                    const dnnl::primitive_attr& attributes,
                                                    const Hint& hint, Args&&... args) {
  return typename Primitive::primitive_desc(engine, std::forward<Args>(args)..., hint, attributes);
}

#else

template <typename Primitive, typename... Args>
typename Primitive::primitive_desc make_pd(const dnnl::engine& engine,
                                           const dnnl::primitive_attr& attributes, Args&&... args) {
  return typename Primitive::primitive_desc(typename Primitive::desc(std::forward<Args>(args)...),
                                            attributes, engine);
}

template <typename Primitive, typename Hint, typename... Args>
typename Primitive::primitive_desc make_backward_pd(const dnnl::engine& engine,
                                                    const dnnl::primitive_attr& attributes,
                                                    const Hint& hint, Args&&... args) {
  return typename Primitive::primitive_desc(typename Primitive::desc(std::forward<Args>(args)...),
                                            attributes, engine, hint);
}

#endif

/// A primitive with its arguments, made once. Between calls only the data pointers change, so a
/// run neither creates nor allocates anything of ours. (oneDNN itself allocates a little to pass
/// arguments on; its C++ execute() would add a list built anew in every call.)
class BoundPrimitive {
 public:
  BoundPrimitive() = default;
  explicit BoundPrimitive(dnnl::primitive primitive) : primitive_(std::move(primitive)) {}

  bool defined() const { return static_cast<bool>(primitive_); }
  void declare(int argument, const dnnl::memory::desc& desc, const dnnl::engine& engine) {
    memories_.emplace_back(desc, engine, static_cast<void*>(DNNL_MEMORY_NONE));
    arguments_.push_back({argument, memories_.back().get()});
  }
  /// oneDNN's interface takes mutable pointers also for what it only reads.
  void set(int argument, const void* data) {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].arg != argument) continue;
      memories_[i].set_data_handle(const_cast<void*>(data));
      return;
    }
    throw Error(fmt::format("oneDNN argument {} was not declared", argument));
  }
  /// Throws std::bad_alloc where oneDNN finds no memory.
  void run(dnnl::stream& stream) {
    const dnnl_status_t status = dnnl_primitive_execute(
        primitive_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data());
    if (status == dnnl_out_of_memory) throw std::bad_alloc();
    dnnl::error::wrap_c_api(status, "a oneDNN primitive could not be executed");
  }

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;  // views of memories_
};

/// Pooling's descriptor took no dilation in 2.x.
template <typename Primitive, typename... Hint>
typename Primitive::primitive_desc make_pooling_pd(
    const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
    const dnnl::memory::desc& source, const dnnl::memory::desc& destination,
    dnnl::algorithm algorithm, const dnnl::memory::dims& strides, const dnnl::memory::dims& kernel,
    const dnnl::memory::dims& padding_low, const dnnl::memory::dims& padding_high,
    const Hint&... hint) {
  const dnnl::memory::dims dilation(kernel.size(), 0);
  if constexpr (sizeof...(Hint) == 0) {
#if DNNL_VERSION_MAJOR >= 3
    return make_pd<Primitive>(engine, attributes, dnnl::prop_kind::forward_training, algorithm,
                              source, destination, strides, kernel, dilation, padding_low,
                              padding_high);
#else
    return make_pd<Primitive>(engine, attributes, dnnl::prop_kind::forward_training, algorithm,
                              source, destination, strides, kernel, padding_low, padding_high);
#endif
  } else {
#if DNNL_VERSION_MAJOR >= 3
    return make_backward_pd<Primitive>(engine, attributes, hint..., algorithm, source, destination,
                                       strides, kernel, dilation, padding_low, padding_high);
#else
    return make_backward_pd<Primitive>(engine, attributes, hint..., algorithm, source, destination,
                                       strides, kernel, padding_low, padding_high);
#endif
  }
}

/// An elementwise function as a post-op; 2.x asked for a scale too.
inline void append_eltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm, float alpha,
                           float beta) {
#if DNNL_VERSION_MAJOR >= 3
  operations.append_eltwise(algorithm, alpha, beta);
#else
  operations.append_eltwise(1.0F, algorithm, alpha, beta);
#endif
}

/// "2.6.3"
inline std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace onednn
}  // namespace tandem
