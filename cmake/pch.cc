// Holds the precompiled header that every room reuses (cmake/rooms.cmake).
