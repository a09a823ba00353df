// An imitation, written for nearkv's tests: shaped like what Vitis HLS 2022.2 writes for hls/nearkv_kernel.cpp (port list,
// parameters, masters, control registers). No vendor tool made it, and it computes nothing.

`timescale 1ns/1ps
module nearkv_kernel_control_s_axi
#(parameter
    C_S_AXI_ADDR_WIDTH = 6,
    C_S_AXI_DATA_WIDTH = 32
)(
    input  wire                          ACLK,
    input  wire                          ARESET,
    input  wire                          ACLK_EN,
    input  wire                              AWVALID,
    output wire                              AWREADY,
    input  wire [C_S_AXI_ADDR_WIDTH-1:0]     AWADDR,
    input  wire                              WVALID,
    output wire                              WREADY,
    input  wire [C_S_AXI_DATA_WIDTH-1:0]     WDATA,
    input  wire [C_S_AXI_DATA_WIDTH/8-1:0]   WSTRB,
    input  wire                              ARVALID,
    output wire                              ARREADY,
    input  wire [C_S_AXI_ADDR_WIDTH-1:0]     ARADDR,
    output wire                              RVALID,
    input  wire                              RREADY,
    output wire [C_S_AXI_DATA_WIDTH-1:0]     RDATA,
    output wire [1:0]                        RRESP,
    output wire                              BVALID,
    input  wire                              BREADY,
    output wire [1:0]                        BRESP,
    output wire                              interrupt,
    output wire [31:0]                       requests,
    output wire [63:0]                       commands,
    output wire [63:0]                       keys,
    output wire [63:0]                       results,
    output wire                              ap_start,
    input  wire                              ap_done,
    input  wire                              ap_ready,
    output wire                              ap_continue,
    input  wire                              ap_idle
);
//------------------------Parameter----------------------
localparam
    ADDR_AP_CTRL          = 6'h00,
    ADDR_GIE              = 6'h04,
    ADDR_IER              = 6'h08,
    ADDR_ISR              = 6'h0c,
    ADDR_REQUESTS_DATA_0  = 6'h10,
    ADDR_REQUESTS_CTRL    = 6'h14,
    ADDR_COMMANDS_DATA_0  = 6'h18,
    ADDR_COMMANDS_DATA_1  = 6'h1c,
    ADDR_COMMANDS_CTRL    = 6'h20,
    ADDR_KEYS_DATA_0      = 6'h24,
    ADDR_KEYS_DATA_1      = 6'h28,
    ADDR_KEYS_CTRL        = 6'h2c,
    ADDR_RESULTS_DATA_0   = 6'h30,
    ADDR_RESULTS_DATA_1   = 6'h34,
    ADDR_RESULTS_CTRL     = 6'h38,
    WRIDLE                = 2'd0,
    WRDATA                = 2'd1,
    WRRESP                = 2'd2,
    WRRESET               = 2'd3,
    RDIDLE                = 2'd0,
    RDDATA                = 2'd1,
    RDRESET               = 2'd2,
    ADDR_BITS             = 6;

//------------------------Local signal-------------------
reg  [1:0]                    wstate = WRRESET;
reg  [1:0]                    wnext;
reg  [ADDR_BITS-1:0]          waddr;
wire                          aw_hs;
wire                          w_hs;
reg  [31:0]                   int_requests = 'b0;
reg  [63:0]                   int_keys = 'b0;

assign aw_hs    = AWVALID & AWREADY;
assign w_hs     = WVALID & WREADY;
assign requests = int_requests;
assign keys     = int_keys;

always @(posedge ACLK) begin
    if (ARESET)
        wstate <= WRRESET;
    else if (ACLK_EN)
        wstate <= wnext;
end

always @(posedge ACLK) begin
    if (ARESET)
        int_requests[31:0] <= 0;
    else if (ACLK_EN) begin
        if (w_hs && waddr == ADDR_REQUESTS_DATA_0)
            int_requests[31:0] <= WDATA[31:0];
    end
end

`ifdef SIMULATION
always @(posedge ACLK) begin
    if (w_hs && waddr == ADDR_GIE)
        $display("GIE is written");
end
`endif

endmodule
