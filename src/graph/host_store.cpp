#include "graph/host_store.h"

namespace tandem {

HostStore::HostStore(const ParameterStore& store, HostCopy copy)
    : store_(&store),
      values_(store.context(), store.all_values(), copy),
      buffers_(store.context(), store.all_buffers(), copy) {}

Tensor HostStore::value(std::size_t parameter) const {
  const Parameter& found = store_->parameters()[parameter];
  return {values_.tensor().data<float>() + found.offset, found.shape};
}

Tensor HostStore::buffer(std::size_t index) const {
  const StateBuffer& found = store_->buffers()[index];
  return {buffers_.tensor().data<float>() + found.offset, found.shape};
}

void HostStore::write_back(ParameterStore& store) {
  values_.write_back();
  buffers_.write_back();
  store.update_weights();
}

}  // namespace tandem
