#include "graph/host_store.h"

namespace tandem {

HostStore::HostStore(const ParameterStore& store, HostCopy copy)
    : parameters_(store.parameters().begin(), store.parameters().end()),
      trained_count_(store.trained().size()),
      model_order_(store.model_order().begin(), store.model_order().end()),
      buffers_(store.buffers().begin(), store.buffers().end()),
      all_values_(store.context(), store.all_values(), copy),
      all_buffers_(store.context(), store.all_buffers(), copy) {}

Tensor HostStore::value(std::size_t parameter) const {
  const Parameter& found = parameters_[parameter];
  return {all_values_.tensor().data<float>() + found.offset, found.shape};
}

Tensor HostStore::buffer(std::size_t index) const {
  const StateBuffer& found = buffers_[index];
  return {all_buffers_.tensor().data<float>() + found.offset, found.shape};
}

void HostStore::write_back(ParameterStore& store) {
  all_values_.write_back();
  all_buffers_.write_back();
  store.update_weights();
}

}  // namespace tandem
