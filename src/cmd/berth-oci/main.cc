// `berth-oci`, which containerd calls in place of runc.

#include "cmd/berth-oci/oci.h"

int main(int argc, char** argv) { return berth::oci::RunWrapper({argv, argv + argc}); }
