# Packages the RTL kernel as a Vitis object. Run by fpga/Makefile in Vivado:
#
#   vivado -mode batch -source package_xo.tcl -tclargs XO TOP PART KERNEL_XML SOURCE...

if {[llength $argv] < 5} {
  puts stderr "usage: package_xo.tcl XO TOP PART KERNEL_XML SOURCE..."
  exit 2
}
set sources [lassign $argv xo top part kernel_xml]
set project [file join [pwd] package_project]
set packaged [file join [pwd] packaged_kernel]
set clock ap_clk
set bus_interfaces {s_axi_control m_axi_keys m_axi_gmem}

create_project -force -part $part package_kernel $project
add_files -norecurse $sources
set_property top $top [current_fileset]
update_compile_order -fileset sources_1

ipx::package_project -root_dir $packaged -vendor nearkv -library kernel -taxonomy /KernelIP \
  -import_files -set_current false
ipx::unload_core [file join $packaged component.xml]
ipx::edit_ip_in_project -upgrade true -name edit_kernel -directory $packaged \
  [file join $packaged component.xml]
set core [ipx::current_core]

foreach interface $bus_interfaces {
  if {[ipx::get_bus_interfaces $interface -of_objects $core] eq ""} {
    puts stderr "package_xo: $top has no interface $interface; its ports must start with ${interface}_"
    exit 1
  }
  ipx::associate_bus_interfaces -busif $interface -clock $clock $core
}
# Vitis sets the frequency when it links; a fixed one in the package would contradict it.
set clock_interface [ipx::get_bus_interfaces $clock -of_objects $core]
if {[ipx::get_bus_parameters FREQ_HZ -of_objects $clock_interface] ne ""} {
  ipx::remove_bus_parameter FREQ_HZ $clock_interface
}

# Parameters are this project's business, not the linker's.
foreach parameter [ipx::get_user_parameters -of_objects $core] {
  ipx::remove_user_parameter [get_property name $parameter] $core
}
set_property sdx_kernel true $core
set_property sdx_kernel_type rtl $core
set_property supported_families {} $core
set_property auto_family_support_level level_2 $core
ipx::create_xgui_files $core
ipx::update_checksums $core
ipx::save_core $core
close_project -delete

file delete -force $xo
package_xo -xo_path $xo -kernel_name $top -ip_directory $packaged -kernel_xml $kernel_xml
