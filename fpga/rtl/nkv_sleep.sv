// Clock of a part that has nothing to do while `enable` is low. In hardware it is the clock itself: clock enables inside
// the part do the same. A simulation that defines NEARKV_SLEEP stops the clock, so that the part costs it no time; the part
// must not notice, and the benches simulate it awake.
`default_nettype none

module nkv_sleep (
    input  wire logic  clk,
    input  wire logic  enable,
    output logic       awake_clk
);
`ifdef NEARKV_SLEEP
  logic awake;
  always_latch if (!clk) awake = enable;
  assign awake_clk = clk && awake;
`else
  assign awake_clk = clk;
  wire logic unused = enable;
`endif
endmodule

`default_nettype wire
