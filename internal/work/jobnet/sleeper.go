package jobnet

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// What a program does that sleeps until it is killed, by what Go calls its machine.
var sleeps = map[string]struct {
	machine elf.Machine
	code    []byte
}{
	"amd64": {elf.EM_X86_64, []byte{
		0xb8, 0x22, 0, 0, 0, // mov eax, 34: pause()
		0x0f, 0x05, // syscall
		0xeb, 0xf7, // jmp to the first
	}},
	"arm64": {elf.EM_AARCH64, []byte{
		0x00, 0x00, 0x80, 0xd2, // mov x0, 0: ppoll(nil, 0, nil, nil)
		0x01, 0x00, 0x80, 0xd2, // mov x1, 0
		0x02, 0x00, 0x80, 0xd2, // mov x2, 0
		0x03, 0x00, 0x80, 0xd2, // mov x3, 0
		0x28, 0x09, 0x80, 0xd2, // mov x8, 73
		0x01, 0x00, 0x00, 0xd4, // svc 0
		0xfa, 0xff, 0xff, 0x17, // b to the first
	}},
}

// loadAt is where the program is in memory. Pages have 64 KiB at most.
const loadAt, pageSize = 0x400000, 0x10000

// Sleeper is a program for Linux that does nothing until it is killed. Images need have none, and some have no other than their own.
func Sleeper(arch string) ([]byte, error) {
	is, known := sleeps[arch]
	if !known {
		return nil, fmt.Errorf("its image is for %.40s, and in a network that hosts share swarmd runs images for amd64 and arm64: run the job with network: host", arch)
	}
	head, part := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(is.machine), Version: uint32(elf.EV_CURRENT), Phnum: 1, Shentsize: 64,
	}, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: loadAt, Paddr: loadAt, Align: pageSize}
	copy(head.Ident[:], elf.ELFMAG)
	head.Ident[elf.EI_CLASS], head.Ident[elf.EI_DATA], head.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	front := binary.Size(head) + binary.Size(part)
	head.Ehsize, head.Phentsize, head.Phoff = uint16(binary.Size(head)), uint16(binary.Size(part)), uint64(binary.Size(head)) //nolint:gosec // 64 and 56
	head.Entry = loadAt + uint64(front)                                                                                       //nolint:gosec // 120
	part.Filesz = uint64(front + len(is.code))                                                                                //nolint:gosec // some hundred bytes
	part.Memsz = part.Filesz
	var b bytes.Buffer
	for _, x := range []any{head, part, is.code} {
		if err := binary.Write(&b, binary.LittleEndian, x); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
