"""Write the kernel description (kernel.xml) that package_xo wants, from the register map.

python fpga/package/kernel_xml.py fpga/registers.json build/kernel.xml
"""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

GLOBAL_MEMORY, SCALAR = "1", "0"
"""addressQualifier of a pointer and of a value."""


def kernel_xml(registers: dict[str, Any]) -> ET.ElementTree:
    """The description of the kernel whose register map is ``registers`` (the content of fpga/registers.json)."""
    root = ET.Element("root", versionMajor="1", versionMinor="6")
    name = registers["kernel"]
    kernel = ET.SubElement(
        root,
        "kernel",
        name=name,
        language="ip_c",
        vlnv=f"nearkv:kernel:{name}:{registers['interface_version']}.0",
        attributes="",
        preferredWorkGroupSizeMultiple="0",
        workGroupSize="1",
        interrupt="true",
        hwControlProtocol=registers["control_protocol"],
    )
    ports = ET.SubElement(kernel, "ports")
    for port, width in registers["ports"].items():
        ET.SubElement(
            ports,
            "port",
            name=port,
            mode=width["mode"],
            range=hex((1 << width["address_width"]) - (width["mode"] == "master")),
            dataWidth=str(width["data_width"]),
            portType="addressable",
            base="0x0",
        )
    arguments = ET.SubElement(kernel, "args")
    for argument in registers["arguments"]:
        pointer = argument["type"].endswith("*")
        ET.SubElement(
            arguments,
            "arg",
            name=argument["name"],
            addressQualifier=GLOBAL_MEMORY if pointer else SCALAR,
            id=str(argument["id"]),
            port=argument["port"],
            size=hex(argument["size"]),
            offset=f"0x{argument['offset']:03x}",
            hostOffset="0x0",
            hostSize=hex(argument["size"]),
            type=argument["type"],
        )
    ET.indent(root)
    return ET.ElementTree(root)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: kernel_xml.py REGISTERS.json KERNEL.xml")
    source, target = map(Path, sys.argv[1:])
    kernel_xml(json.loads(source.read_text())).write(target, encoding="UTF-8", xml_declaration=True)
