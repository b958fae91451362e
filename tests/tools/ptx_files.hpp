// Small kernels for tests of ptx run and ptx profile, and the folder their files go to.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/paths.hpp"

namespace microscale::testing {

/// A folder that is gone with the object.
class Scratch {
 public:
  Scratch()
      : path_(std::filesystem::temp_directory_path() /
              ("microscale_ptx" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

/// y[i] = a * x[i] + i for 32-bit floats; one thread each, none spare.
inline const std::string affine_ptx = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry affine(.param .u64 affine_param_0, .param .f32 affine_param_1, .param .u64 affine_param_2)
{
  .reg .b32 %r<6>;
  .reg .f32 %f<6>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [affine_param_0];
  ld.param.f32 %f1, [affine_param_1];
  ld.param.u64 %rd2, [affine_param_2];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  mul.wide.s32 %rd3, %r4, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  cvt.rn.f32.s32 %f3, %r4;
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd5], %f4;
  ret;
}
)";

/// The naive and the tiled transposes of a 64 x 96 matrix.
inline std::vector<std::string> transpose_words(const std::string& action,
                                                const std::string& kernel) {
  return {"ptx",
          action,
          microscale::testing::test_data() + "/tools/transpose.ptx",
          "--kernel",
          kernel,
          "--grid",
          "3,2",
          "--block",
          "1024",
          "--arg",
          "in=f32[64,96]:iota",
          "--arg",
          "u64:64",
          "--arg",
          "u64:96",
          "--arg",
          "out=f32[96,64]",
          "--arg",
          "null",
          "--arg",
          "f32:1"};
}

}  // namespace microscale::testing
