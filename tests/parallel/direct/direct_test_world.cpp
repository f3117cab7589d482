#include "parallel/device_test_worlds.h"
#include "parallel/direct/direct_communicator.h"

TANDEM_DEVICE_TEST_WORLDS(DirectCommunicator)
