#include "parallel/device_test_worlds.h"
#include "parallel/peer_copy/peer_copy_communicator.h"

TANDEM_DEVICE_TEST_WORLDS(PeerCopyCommunicator)
