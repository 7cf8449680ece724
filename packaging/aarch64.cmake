# Cross-compiles for aarch64: `apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross`.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
# Python's headers are this machine's: the limited API is the same wherever pointers have 64 bits.
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
