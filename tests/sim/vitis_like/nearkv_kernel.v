// An imitation, written for nearkv's tests: shaped like what Vitis HLS 2022.2 writes for hls/nearkv_kernel.cpp (port list,
// parameters, masters, control registers). No vendor tool made it, and it computes nothing.

`timescale 1 ns / 1 ps

(* CORE_GENERATION_INFO="nearkv_kernel,hls_ip_2022_2,{HLS_INPUT_TYPE=cxx,HLS_SYN_CLOCK=2.433000}" *)

module nearkv_kernel (
        ap_clk,
        ap_rst_n,
        m_axi_keys_AWVALID,
        m_axi_keys_AWREADY,
        m_axi_keys_AWADDR,
        m_axi_keys_AWID,
        m_axi_keys_AWLEN,
        m_axi_keys_AWSIZE,
        m_axi_keys_AWBURST,
        m_axi_keys_AWLOCK,
        m_axi_keys_AWCACHE,
        m_axi_keys_AWPROT,
        m_axi_keys_AWQOS,
        m_axi_keys_AWREGION,
        m_axi_keys_AWUSER,
        m_axi_keys_WVALID,
        m_axi_keys_WREADY,
        m_axi_keys_WDATA,
        m_axi_keys_WSTRB,
        m_axi_keys_WLAST,
        m_axi_keys_WID,
        m_axi_keys_WUSER,
        m_axi_keys_ARVALID,
        m_axi_keys_ARREADY,
        m_axi_keys_ARADDR,
        m_axi_keys_ARID,
        m_axi_keys_ARLEN,
        m_axi_keys_ARSIZE,
        m_axi_keys_ARBURST,
        m_axi_keys_ARLOCK,
        m_axi_keys_ARCACHE,
        m_axi_keys_ARPROT,
        m_axi_keys_ARQOS,
        m_axi_keys_ARREGION,
        m_axi_keys_ARUSER,
        m_axi_keys_RVALID,
        m_axi_keys_RREADY,
        m_axi_keys_RDATA,
        m_axi_keys_RLAST,
        m_axi_keys_RID,
        m_axi_keys_RUSER,
        m_axi_keys_RRESP,
        m_axi_keys_BVALID,
        m_axi_keys_BREADY,
        m_axi_keys_BRESP,
        m_axi_keys_BID,
        m_axi_keys_BUSER,
        m_axi_gmem_AWVALID,
        m_axi_gmem_AWREADY,
        m_axi_gmem_AWADDR,
        m_axi_gmem_AWID,
        m_axi_gmem_AWLEN,
        m_axi_gmem_AWSIZE,
        m_axi_gmem_AWBURST,
        m_axi_gmem_AWLOCK,
        m_axi_gmem_AWCACHE,
        m_axi_gmem_AWPROT,
        m_axi_gmem_AWQOS,
        m_axi_gmem_AWREGION,
        m_axi_gmem_AWUSER,
        m_axi_gmem_WVALID,
        m_axi_gmem_WREADY,
        m_axi_gmem_WDATA,
        m_axi_gmem_WSTRB,
        m_axi_gmem_WLAST,
        m_axi_gmem_WID,
        m_axi_gmem_WUSER,
        m_axi_gmem_ARVALID,
        m_axi_gmem_ARREADY,
        m_axi_gmem_ARADDR,
        m_axi_gmem_ARID,
        m_axi_gmem_ARLEN,
        m_axi_gmem_ARSIZE,
        m_axi_gmem_ARBURST,
        m_axi_gmem_ARLOCK,
        m_axi_gmem_ARCACHE,
        m_axi_gmem_ARPROT,
        m_axi_gmem_ARQOS,
        m_axi_gmem_ARREGION,
        m_axi_gmem_ARUSER,
        m_axi_gmem_RVALID,
        m_axi_gmem_RREADY,
        m_axi_gmem_RDATA,
        m_axi_gmem_RLAST,
        m_axi_gmem_RID,
        m_axi_gmem_RUSER,
        m_axi_gmem_RRESP,
        m_axi_gmem_BVALID,
        m_axi_gmem_BREADY,
        m_axi_gmem_BRESP,
        m_axi_gmem_BID,
        m_axi_gmem_BUSER,
        s_axi_control_AWVALID,
        s_axi_control_AWREADY,
        s_axi_control_AWADDR,
        s_axi_control_WVALID,
        s_axi_control_WREADY,
        s_axi_control_WDATA,
        s_axi_control_WSTRB,
        s_axi_control_ARVALID,
        s_axi_control_ARREADY,
        s_axi_control_ARADDR,
        s_axi_control_RVALID,
        s_axi_control_RREADY,
        s_axi_control_RDATA,
        s_axi_control_RRESP,
        s_axi_control_BVALID,
        s_axi_control_BREADY,
        s_axi_control_BRESP,
        interrupt
);

parameter    ap_ST_fsm_state1 = 3'd1;
parameter    ap_ST_fsm_state2 = 3'd2;
parameter    ap_ST_fsm_state3 = 3'd4;
parameter    C_S_AXI_CONTROL_DATA_WIDTH = 32;
parameter    C_S_AXI_CONTROL_ADDR_WIDTH = 6;
parameter    C_S_AXI_DATA_WIDTH = 32;
parameter    C_M_AXI_KEYS_ID_WIDTH = 1;
parameter    C_M_AXI_KEYS_ADDR_WIDTH = 64;
parameter    C_M_AXI_KEYS_DATA_WIDTH = 512;
parameter    C_M_AXI_KEYS_AWUSER_WIDTH = 1;
parameter    C_M_AXI_KEYS_ARUSER_WIDTH = 1;
parameter    C_M_AXI_KEYS_WUSER_WIDTH = 1;
parameter    C_M_AXI_KEYS_RUSER_WIDTH = 1;
parameter    C_M_AXI_KEYS_BUSER_WIDTH = 1;
parameter    C_M_AXI_KEYS_USER_VALUE = 0;
parameter    C_M_AXI_KEYS_PROT_VALUE = 0;
parameter    C_M_AXI_KEYS_CACHE_VALUE = 3;
parameter    C_M_AXI_GMEM_ID_WIDTH = 1;
parameter    C_M_AXI_GMEM_ADDR_WIDTH = 64;
parameter    C_M_AXI_GMEM_DATA_WIDTH = 512;
parameter    C_M_AXI_GMEM_AWUSER_WIDTH = 1;
parameter    C_M_AXI_GMEM_ARUSER_WIDTH = 1;
parameter    C_M_AXI_GMEM_WUSER_WIDTH = 1;
parameter    C_M_AXI_GMEM_RUSER_WIDTH = 1;
parameter    C_M_AXI_GMEM_BUSER_WIDTH = 1;
parameter    C_M_AXI_GMEM_USER_VALUE = 0;
parameter    C_M_AXI_GMEM_PROT_VALUE = 0;
parameter    C_M_AXI_GMEM_CACHE_VALUE = 3;

parameter C_S_AXI_CONTROL_WSTRB_WIDTH = (32 / 8);
parameter C_S_AXI_WSTRB_WIDTH = (32 / 8);
parameter C_M_AXI_KEYS_WSTRB_WIDTH = (512 / 8);
parameter C_M_AXI_GMEM_WSTRB_WIDTH = (512 / 8);

input   ap_clk;
input   ap_rst_n;
output   m_axi_keys_AWVALID;
input   m_axi_keys_AWREADY;
output  [C_M_AXI_KEYS_ADDR_WIDTH - 1:0] m_axi_keys_AWADDR;
output  [C_M_AXI_KEYS_ID_WIDTH - 1:0] m_axi_keys_AWID;
output  [7:0] m_axi_keys_AWLEN;
output  [2:0] m_axi_keys_AWSIZE;
output  [1:0] m_axi_keys_AWBURST;
output  [1:0] m_axi_keys_AWLOCK;
output  [3:0] m_axi_keys_AWCACHE;
output  [2:0] m_axi_keys_AWPROT;
output  [3:0] m_axi_keys_AWQOS;
output  [3:0] m_axi_keys_AWREGION;
output  [C_M_AXI_KEYS_AWUSER_WIDTH - 1:0] m_axi_keys_AWUSER;
output   m_axi_keys_WVALID;
input   m_axi_keys_WREADY;
output  [C_M_AXI_KEYS_DATA_WIDTH - 1:0] m_axi_keys_WDATA;
output  [C_M_AXI_KEYS_WSTRB_WIDTH - 1:0] m_axi_keys_WSTRB;
output   m_axi_keys_WLAST;
output  [C_M_AXI_KEYS_ID_WIDTH - 1:0] m_axi_keys_WID;
output  [C_M_AXI_KEYS_WUSER_WIDTH - 1:0] m_axi_keys_WUSER;
output   m_axi_keys_ARVALID;
input   m_axi_keys_ARREADY;
output  [C_M_AXI_KEYS_ADDR_WIDTH - 1:0] m_axi_keys_ARADDR;
output  [C_M_AXI_KEYS_ID_WIDTH - 1:0] m_axi_keys_ARID;
output  [7:0] m_axi_keys_ARLEN;
output  [2:0] m_axi_keys_ARSIZE;
output  [1:0] m_axi_keys_ARBURST;
output  [1:0] m_axi_keys_ARLOCK;
output  [3:0] m_axi_keys_ARCACHE;
output  [2:0] m_axi_keys_ARPROT;
output  [3:0] m_axi_keys_ARQOS;
output  [3:0] m_axi_keys_ARREGION;
output  [C_M_AXI_KEYS_ARUSER_WIDTH - 1:0] m_axi_keys_ARUSER;
input   m_axi_keys_RVALID;
output   m_axi_keys_RREADY;
input  [C_M_AXI_KEYS_DATA_WIDTH - 1:0] m_axi_keys_RDATA;
input   m_axi_keys_RLAST;
input  [C_M_AXI_KEYS_ID_WIDTH - 1:0] m_axi_keys_RID;
input  [C_M_AXI_KEYS_RUSER_WIDTH - 1:0] m_axi_keys_RUSER;
input  [1:0] m_axi_keys_RRESP;
input   m_axi_keys_BVALID;
output   m_axi_keys_BREADY;
input  [1:0] m_axi_keys_BRESP;
input  [C_M_AXI_KEYS_ID_WIDTH - 1:0] m_axi_keys_BID;
input  [C_M_AXI_KEYS_BUSER_WIDTH - 1:0] m_axi_keys_BUSER;
output   m_axi_gmem_AWVALID;
input   m_axi_gmem_AWREADY;
output  [C_M_AXI_GMEM_ADDR_WIDTH - 1:0] m_axi_gmem_AWADDR;
output  [C_M_AXI_GMEM_ID_WIDTH - 1:0] m_axi_gmem_AWID;
output  [7:0] m_axi_gmem_AWLEN;
output  [2:0] m_axi_gmem_AWSIZE;
output  [1:0] m_axi_gmem_AWBURST;
output  [1:0] m_axi_gmem_AWLOCK;
output  [3:0] m_axi_gmem_AWCACHE;
output  [2:0] m_axi_gmem_AWPROT;
output  [3:0] m_axi_gmem_AWQOS;
output  [3:0] m_axi_gmem_AWREGION;
output  [C_M_AXI_GMEM_AWUSER_WIDTH - 1:0] m_axi_gmem_AWUSER;
output   m_axi_gmem_WVALID;
input   m_axi_gmem_WREADY;
output  [C_M_AXI_GMEM_DATA_WIDTH - 1:0] m_axi_gmem_WDATA;
output  [C_M_AXI_GMEM_WSTRB_WIDTH - 1:0] m_axi_gmem_WSTRB;
output   m_axi_gmem_WLAST;
output  [C_M_AXI_GMEM_ID_WIDTH - 1:0] m_axi_gmem_WID;
output  [C_M_AXI_GMEM_WUSER_WIDTH - 1:0] m_axi_gmem_WUSER;
output   m_axi_gmem_ARVALID;
input   m_axi_gmem_ARREADY;
output  [C_M_AXI_GMEM_ADDR_WIDTH - 1:0] m_axi_gmem_ARADDR;
output  [C_M_AXI_GMEM_ID_WIDTH - 1:0] m_axi_gmem_ARID;
output  [7:0] m_axi_gmem_ARLEN;
output  [2:0] m_axi_gmem_ARSIZE;
output  [1:0] m_axi_gmem_ARBURST;
output  [1:0] m_axi_gmem_ARLOCK;
output  [3:0] m_axi_gmem_ARCACHE;
output  [2:0] m_axi_gmem_ARPROT;
output  [3:0] m_axi_gmem_ARQOS;
output  [3:0] m_axi_gmem_ARREGION;
output  [C_M_AXI_GMEM_ARUSER_WIDTH - 1:0] m_axi_gmem_ARUSER;
input   m_axi_gmem_RVALID;
output   m_axi_gmem_RREADY;
input  [C_M_AXI_GMEM_DATA_WIDTH - 1:0] m_axi_gmem_RDATA;
input   m_axi_gmem_RLAST;
input  [C_M_AXI_GMEM_ID_WIDTH - 1:0] m_axi_gmem_RID;
input  [C_M_AXI_GMEM_RUSER_WIDTH - 1:0] m_axi_gmem_RUSER;
input  [1:0] m_axi_gmem_RRESP;
input   m_axi_gmem_BVALID;
output   m_axi_gmem_BREADY;
input  [1:0] m_axi_gmem_BRESP;
input  [C_M_AXI_GMEM_ID_WIDTH - 1:0] m_axi_gmem_BID;
input  [C_M_AXI_GMEM_BUSER_WIDTH - 1:0] m_axi_gmem_BUSER;
input   s_axi_control_AWVALID;
output   s_axi_control_AWREADY;
input  [C_S_AXI_CONTROL_ADDR_WIDTH - 1:0] s_axi_control_AWADDR;
input   s_axi_control_WVALID;
output   s_axi_control_WREADY;
input  [C_S_AXI_CONTROL_DATA_WIDTH - 1:0] s_axi_control_WDATA;
input  [C_S_AXI_CONTROL_WSTRB_WIDTH - 1:0] s_axi_control_WSTRB;
input   s_axi_control_ARVALID;
output   s_axi_control_ARREADY;
input  [C_S_AXI_CONTROL_ADDR_WIDTH - 1:0] s_axi_control_ARADDR;
output   s_axi_control_RVALID;
input   s_axi_control_RREADY;
output  [C_S_AXI_CONTROL_DATA_WIDTH - 1:0] s_axi_control_RDATA;
output  [1:0] s_axi_control_RRESP;
output   s_axi_control_BVALID;
input   s_axi_control_BREADY;
output  [1:0] s_axi_control_BRESP;
output   interrupt;

 reg    ap_rst_n_inv;
wire    ap_start;
wire    ap_ready;
wire    ap_done;
wire    ap_continue;
wire    ap_idle;
reg    ap_done_reg;
(* fsm_encoding = "none" *) reg   [2:0] ap_CS_fsm;
wire    ap_CS_fsm_state1;
reg   [2:0] ap_NS_fsm;
wire   [31:0] requests;
wire   [63:0] commands;
wire   [63:0] keys;
wire   [63:0] results;

// power-on initialization
initial begin
#0 ap_done_reg = 1'b0;
#0 ap_CS_fsm = 3'd1;
end

nearkv_kernel_control_s_axi #(
    .C_S_AXI_ADDR_WIDTH( C_S_AXI_CONTROL_ADDR_WIDTH ),
    .C_S_AXI_DATA_WIDTH( C_S_AXI_CONTROL_DATA_WIDTH ))
control_s_axi_U(
    .AWVALID(s_axi_control_AWVALID),
    .AWREADY(s_axi_control_AWREADY),
    .AWADDR(s_axi_control_AWADDR),
    .WVALID(s_axi_control_WVALID),
    .WREADY(s_axi_control_WREADY),
    .WDATA(s_axi_control_WDATA),
    .WSTRB(s_axi_control_WSTRB),
    .ARVALID(s_axi_control_ARVALID),
    .ARREADY(s_axi_control_ARREADY),
    .ARADDR(s_axi_control_ARADDR),
    .RVALID(s_axi_control_RVALID),
    .RREADY(s_axi_control_RREADY),
    .RDATA(s_axi_control_RDATA),
    .RRESP(s_axi_control_RRESP),
    .BVALID(s_axi_control_BVALID),
    .BREADY(s_axi_control_BREADY),
    .BRESP(s_axi_control_BRESP),
    .ACLK(ap_clk),
    .ARESET(ap_rst_n_inv),
    .ACLK_EN(1'b1),
    .requests(requests),
    .commands(commands),
    .keys(keys),
    .results(results),
    .ap_start(ap_start),
    .interrupt(interrupt),
    .ap_ready(ap_ready),
    .ap_done(ap_done),
    .ap_continue(ap_continue),
    .ap_idle(ap_idle)
);

nearkv_kernel_keys_m_axi #(
    .CONSERVATIVE( 1 ),
    .USER_MAXREQS( 69 ),
    .MAX_READ_BURST_LENGTH( 64 ),
    .MAX_WRITE_BURST_LENGTH( 16 ),
    .C_M_AXI_ID_WIDTH( C_M_AXI_KEYS_ID_WIDTH ),
    .C_M_AXI_ADDR_WIDTH( C_M_AXI_KEYS_ADDR_WIDTH ),
    .C_M_AXI_DATA_WIDTH( C_M_AXI_KEYS_DATA_WIDTH ),
    .C_USER_VALUE( C_M_AXI_KEYS_USER_VALUE ),
    .C_PROT_VALUE( C_M_AXI_KEYS_PROT_VALUE ),
    .C_CACHE_VALUE( C_M_AXI_KEYS_CACHE_VALUE ),
    .CH0_USER_RFIFONUM_WIDTH( 13 ),
    .CH0_USER_DW( 512 ),
    .CH0_USER_AW( 64 ),
    .NUM_READ_OUTSTANDING( 32 ),
    .NUM_WRITE_OUTSTANDING( 16 ),
    .MAXI_BUFFER_IMPL( "block" ))
keys_m_axi_U(
    .AWVALID(m_axi_keys_AWVALID),
    .AWREADY(m_axi_keys_AWREADY),
    .AWADDR(m_axi_keys_AWADDR),
    .AWID(m_axi_keys_AWID),
    .AWLEN(m_axi_keys_AWLEN),
    .AWSIZE(m_axi_keys_AWSIZE),
    .AWBURST(m_axi_keys_AWBURST),
    .AWLOCK(m_axi_keys_AWLOCK),
    .AWCACHE(m_axi_keys_AWCACHE),
    .AWPROT(m_axi_keys_AWPROT),
    .AWQOS(m_axi_keys_AWQOS),
    .AWREGION(m_axi_keys_AWREGION),
    .AWUSER(m_axi_keys_AWUSER),
    .WVALID(m_axi_keys_WVALID),
    .WREADY(m_axi_keys_WREADY),
    .WDATA(m_axi_keys_WDATA),
    .WSTRB(m_axi_keys_WSTRB),
    .WLAST(m_axi_keys_WLAST),
    .WID(m_axi_keys_WID),
    .WUSER(m_axi_keys_WUSER),
    .ARVALID(m_axi_keys_ARVALID),
    .ARREADY(m_axi_keys_ARREADY),
    .ARADDR(m_axi_keys_ARADDR),
    .ARID(m_axi_keys_ARID),
    .ARLEN(m_axi_keys_ARLEN),
    .ARSIZE(m_axi_keys_ARSIZE),
    .ARBURST(m_axi_keys_ARBURST),
    .ARLOCK(m_axi_keys_ARLOCK),
    .ARCACHE(m_axi_keys_ARCACHE),
    .ARPROT(m_axi_keys_ARPROT),
    .ARQOS(m_axi_keys_ARQOS),
    .ARREGION(m_axi_keys_ARREGION),
    .ARUSER(m_axi_keys_ARUSER),
    .RVALID(m_axi_keys_RVALID),
    .RREADY(m_axi_keys_RREADY),
    .RDATA(m_axi_keys_RDATA),
    .RLAST(m_axi_keys_RLAST),
    .RID(m_axi_keys_RID),
    .RUSER(m_axi_keys_RUSER),
    .RRESP(m_axi_keys_RRESP),
    .BVALID(m_axi_keys_BVALID),
    .BREADY(m_axi_keys_BREADY),
    .BRESP(m_axi_keys_BRESP),
    .BID(m_axi_keys_BID),
    .BUSER(m_axi_keys_BUSER),
    .ACLK(ap_clk),
    .ARESET(ap_rst_n_inv),
    .ACLK_EN(1'b1)
);

nearkv_kernel_gmem_m_axi #(
    .CONSERVATIVE( 1 ),
    .USER_MAXREQS( 69 ),
    .MAX_READ_BURST_LENGTH( 64 ),
    .MAX_WRITE_BURST_LENGTH( 64 ),
    .C_M_AXI_ID_WIDTH( C_M_AXI_GMEM_ID_WIDTH ),
    .C_M_AXI_ADDR_WIDTH( C_M_AXI_GMEM_ADDR_WIDTH ),
    .C_M_AXI_DATA_WIDTH( C_M_AXI_GMEM_DATA_WIDTH ),
    .C_USER_VALUE( C_M_AXI_GMEM_USER_VALUE ),
    .C_PROT_VALUE( C_M_AXI_GMEM_PROT_VALUE ),
    .C_CACHE_VALUE( C_M_AXI_GMEM_CACHE_VALUE ),
    .CH0_USER_RFIFONUM_WIDTH( 13 ),
    .CH0_USER_DW( 512 ),
    .CH0_USER_AW( 64 ),
    .NUM_READ_OUTSTANDING( 16 ),
    .NUM_WRITE_OUTSTANDING( 16 ),
    .MAXI_BUFFER_IMPL( "block" ))
gmem_m_axi_U(
    .AWVALID(m_axi_gmem_AWVALID),
    .AWREADY(m_axi_gmem_AWREADY),
    .AWADDR(m_axi_gmem_AWADDR),
    .AWID(m_axi_gmem_AWID),
    .AWLEN(m_axi_gmem_AWLEN),
    .AWSIZE(m_axi_gmem_AWSIZE),
    .AWBURST(m_axi_gmem_AWBURST),
    .AWLOCK(m_axi_gmem_AWLOCK),
    .AWCACHE(m_axi_gmem_AWCACHE),
    .AWPROT(m_axi_gmem_AWPROT),
    .AWQOS(m_axi_gmem_AWQOS),
    .AWREGION(m_axi_gmem_AWREGION),
    .AWUSER(m_axi_gmem_AWUSER),
    .WVALID(m_axi_gmem_WVALID),
    .WREADY(m_axi_gmem_WREADY),
    .WDATA(m_axi_gmem_WDATA),
    .WSTRB(m_axi_gmem_WSTRB),
    .WLAST(m_axi_gmem_WLAST),
    .WID(m_axi_gmem_WID),
    .WUSER(m_axi_gmem_WUSER),
    .ARVALID(m_axi_gmem_ARVALID),
    .ARREADY(m_axi_gmem_ARREADY),
    .ARADDR(m_axi_gmem_ARADDR),
    .ARID(m_axi_gmem_ARID),
    .ARLEN(m_axi_gmem_ARLEN),
    .ARSIZE(m_axi_gmem_ARSIZE),
    .ARBURST(m_axi_gmem_ARBURST),
    .ARLOCK(m_axi_gmem_ARLOCK),
    .ARCACHE(m_axi_gmem_ARCACHE),
    .ARPROT(m_axi_gmem_ARPROT),
    .ARQOS(m_axi_gmem_ARQOS),
    .ARREGION(m_axi_gmem_ARREGION),
    .ARUSER(m_axi_gmem_ARUSER),
    .RVALID(m_axi_gmem_RVALID),
    .RREADY(m_axi_gmem_RREADY),
    .RDATA(m_axi_gmem_RDATA),
    .RLAST(m_axi_gmem_RLAST),
    .RID(m_axi_gmem_RID),
    .RUSER(m_axi_gmem_RUSER),
    .RRESP(m_axi_gmem_RRESP),
    .BVALID(m_axi_gmem_BVALID),
    .BREADY(m_axi_gmem_BREADY),
    .BRESP(m_axi_gmem_BRESP),
    .BID(m_axi_gmem_BID),
    .BUSER(m_axi_gmem_BUSER),
    .ACLK(ap_clk),
    .ARESET(ap_rst_n_inv),
    .ACLK_EN(1'b1)
);

always @ (posedge ap_clk) begin
    if (ap_rst_n_inv == 1'b1) begin
        ap_CS_fsm <= ap_ST_fsm_state1;
        ap_done_reg <= 1'b0;
    end else begin
        ap_CS_fsm <= ap_NS_fsm;
        if ((ap_continue == 1'b1)) begin
            ap_done_reg <= 1'b0;
        end else if ((ap_done == 1'b1)) begin
            ap_done_reg <= 1'b1;
        end
    end
end

always @ (*) begin
    case (ap_CS_fsm)
        ap_ST_fsm_state1 : begin
            ap_NS_fsm = (ap_start == 1'b1) ? ap_ST_fsm_state2 : ap_ST_fsm_state1;
        end
        ap_ST_fsm_state2 : begin
            ap_NS_fsm = ap_ST_fsm_state3;
        end
        default : begin
            ap_NS_fsm = ap_ST_fsm_state1;
        end
    endcase
end

always @ (*) begin
    ap_rst_n_inv = ~ap_rst_n;
end

assign ap_CS_fsm_state1 = ap_CS_fsm[32'd0];

assign ap_idle = ((ap_start == 1'b0) & (1'b1 == ap_CS_fsm_state1));

assign ap_done = (ap_done_reg | (ap_CS_fsm == ap_ST_fsm_state3));

assign ap_ready = (ap_CS_fsm == ap_ST_fsm_state3);

endmodule //nearkv_kernel
