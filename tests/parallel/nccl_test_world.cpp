#include "parallel/device_test_worlds.h"
#include "parallel/nccl/nccl_communicator.h"

TANDEM_DEVICE_TEST_WORLDS(NcclCommunicator)
