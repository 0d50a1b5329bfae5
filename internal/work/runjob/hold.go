package runjob

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	launcher "github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// holdFile is the program that holds an address, in runDir.
const holdFile = "hold"

// holdAddress has a container hold an address for a member, in a network that hosts share: an engine gives one to what runs alone, and the member's program is
// not to run before the addresses of all members are known. One that is held already, as by a SWOP before this one, stays.
func holdAddress(ctx context.Context, c *Containers, e *engine.Engine, j work.Job, network, image string) (a netip.Addr, err error) {
	_, holders, err := both(ctx, c, e)
	if err != nil {
		return a, err
	}
	if x, is := holders[j.Label]; is {
		if a, err := addressIn(x); err == nil && x.State == container.StateRunning {
			return a, nil
		}
		if err := removeBox(ctx, e, x); err != nil {
			return a, err
		}
	}
	if err := checkShared(ctx, e, network); err != nil {
		return a, err
	}
	found, err := e.ImageInspect(ctx, image)
	if err != nil {
		return a, engine.Explain(fmt.Errorf("look for image %.200s: %w", image, err))
	}
	program, err := holdProgram(found.Architecture)
	if err != nil {
		return a, err
	}
	if err := c.Watch.begin(); err != nil {
		return a, err
	}
	spec := holderOf(c, j, network, image)
	id, err := launcher.Make(ctx, launcher.New(e, c.Log), spec, engine.RoleMember)
	if err != nil {
		return a, ofShared(err)
	}
	raw, err := packed([]jobfile.File{{Path: holdFile, Data: program}}, nil, spec.User, func(jobfile.File) fs.FileMode { return 0o555 })
	if err != nil {
		return a, err
	}
	if err := e.CopyToContainer(ctx, id, runDir, bytes.NewReader(raw), container.CopyToContainerOptions{}); err != nil {
		return a, engine.Explain(fmt.Errorf("write what holds a member's address: %w", err))
	}
	if err := launcher.Begin(ctx, e, id); err != nil {
		return a, ofShared(err)
	}
	if err := checkShared(ctx, e, network); err != nil { // which the engine knows by now, also if a manager alone did before
		return a, err
	}
	if _, holders, err = both(ctx, c, e); err != nil {
		return a, err
	}
	return addressIn(holders[j.Label])
}

// Bounds of what holds an address.
const (
	holdMemory = 32 << 20 // bytes, with what the engine needs to start it
	holdPids   = 16
)

// holderOf is the container that holds a member's address. It has the member's image, as the only one that the owner has consented to, and runs
// nothing of it.
func holderOf(c *Containers, j work.Job, network, image string) launcher.Spec {
	s := launcher.Spec{
		Node: j.Node, Scope: c.Scope, AnyFramework: true, Name: c.nameOf(j.Label) + "-address", Image: image, WorkDir: "/", Network: network,
		Hostname: framework.NameOf(int(j.Member)), Own: []string{runDir}, Detached: true, NoInit: true, NoHealth: true, Grace: time.Second, User: start.Caller(os.Getenv),
		Entrypoint: []string{path.Join(runDir, holdFile)}, Memory: holdMemory, Pids: holdPids, Log: c.Log,
	}
	for k, v := range volume.Labels(j.Label, engine.RoleMember, c.Scope) {
		s.Labels = append(s.Labels, k+"="+v)
	}
	s.Labels = append(s.Labels, engine.LabelHolds+"=address")
	return s
}

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

// holdProgram is a program for Linux that does nothing until it is killed. Images need have none, and some have no other than their own.
func holdProgram(arch string) ([]byte, error) {
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
