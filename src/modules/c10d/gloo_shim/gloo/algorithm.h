// LibTorch's wheels have no Gloo headers, and ProcessGroupGloo.hpp includes five of them. Gloo's objects live only behind pointers there,
// so these declare just what that header names; nothing here is ever constructed or called by us, and no symbol of Gloo is linked.
#pragma once
