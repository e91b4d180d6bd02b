// libfuse's low-level interface, in the version that this room uses.
#pragma once

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>
