// Small disassemblies, as the tools print them.
#pragma once

#include <string>

namespace microscale::testing {

/// `code` is the lines of instructions and labels of a kernel named `name`, as nvdisasm prints
/// them.
inline std::string nvdisasm_text(const std::string& name, const std::string& code) {
  return "\t.target\tsm_100\n\n"
         "//--------------------- .nv.info                 --------------------------\n"
         "\t.section\t.nv.info,\"\",@\"SHT_CUDA_INFO\"\n"
         "\t//----- nvinfo : EIATTR_FRAME_SIZE\n"
         "        /*0000*/ \t.word\tindex@(" +
         name +
         ")\n"
         "        /*0004*/ \t.word\t0x00000030\n"
         "\t//----- nvinfo : EIATTR_REGCOUNT\n"
         "\t.align\t\t4\n"
         "        /*0004*/ \t.word\tindex@(" +
         name +
         ")\n"
         "        /*0008*/ \t.word\t0x0000002f\n"
         "//--------------------- .text." +
         name +
         " --------------------------\n"
         "\t.section\t.text." +
         name +
         ",\"ax\",@progbits\n"
         "\t.align\t128\n"
         "        .global         " +
         name + "\n" + name + ":\n.text." + name + ":\n" + code +
         "//--------------------- .nv.shared." + name +
         " --------------------------\n"
         "\t.section\t.nv.shared." +
         name +
         ",\"aw\",@nobits\n"
         "\t.sectionflags\t@\"\"\n"
         "\t.align\t16\n"
         ".nv.shared." +
         name +
         ":\n"
         "\t.zero\t\t2048\n";
}

/// One line of code; addresses are told apart by `address`.
inline std::string line_of(int address, const std::string& text) {
  std::string digits = "0000";
  for (int i = 3, rest = address; i >= 0; --i, rest /= 16)
    digits[static_cast<std::size_t>(i)] = "0123456789abcdef"[rest % 16];
  return "        /*" + digits + "*/                   " + text + " ;\n";
}

}  // namespace microscale::testing
