"""The HLS datapath and the RTL proved equal by SMT: C++ through LLVM IR, RTL through BTOR2, one miter per stage."""
