#include "graph/host_store.h"

namespace tandem {

HostStore::HostStore(const ParameterStore& store)
    : store_(&store),
      values_(store.context(), store.all_values()),
      buffers_(store.context(), store.all_buffers()) {}

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
