# C simulation, synthesis and co-simulation of the HLS kernel. Run by `make -C fpga csynth`:
#
#   vitis_hls -f vitis_hls.tcl -tclargs ROOT PART PERIOD_NS

if {[llength $argv] < 3} {
  puts stderr "usage: vitis_hls.tcl ROOT PART PERIOD_NS"
  exit 2
}
lassign [lrange $argv end-2 end] root part period
set hls [file join $root hls]
# Two small vectors, one per format; `make -C hls test` runs them all, which co-simulation has no time for.
set vectors {}
foreach name {int4_d64_g4 int8_d64_g4} {
  lappend vectors [file join $root tests vectors score $name.bin]
}

open_project -reset nearkv_kernel
set_top nearkv_kernel
add_files -cflags "-I $hls" [file join $hls nearkv_kernel.cpp]
add_files -tb -cflags "-I $hls" [file join $hls csim testbench.cpp]

open_solution -reset -flow_target vitis solution
set_part $part
create_clock -period $period -name default
csim_design -argv $vectors
csynth_design
cosim_design -argv $vectors
exit
