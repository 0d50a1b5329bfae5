package container

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// lacksInit reports whether an engine has no init process to put into containers, as Debian's without docker-init or tini.
func lacksInit(err error) bool {
	text := strings.ToLower(err.Error())
	for _, name := range []string{"docker-init", "catatonit", "container-init", "init binary", "init path"} {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}

// explainStart says what an engine's refusal to make or to start a container means for a program's options.
func explainStart(err error, s Spec) error {
	var known *engine.Error
	var several problems
	if errors.As(err, &known) || errors.As(err, &several) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	text := strings.ToLower(err.Error())
	has := func(words ...string) bool {
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	}
	said := oneLine(strings.TrimPrefix(err.Error(), "Error response from daemon: "))
	switch {
	case errdefs.IsNotFound(err) && has("image"):
		return errNoImage(s.Image)
	case s.Name != "" && has("name", "already in use"):
		return errName(s.Name)
	case s.Network != "" && has("network", "not found"), has("unable to find network"):
		return errNoNetwork(s.Network)
	case has("could not select device driver"):
		return problem("install the NVIDIA container toolkit and restart the engine, or leave --gpu out",
			"the container engine has no driver for GPUs: %s", said)
	case has("stat /dev/", "no such file"): // Podman's words
		return problem("load the driver that makes it, or correct --ml-device", "bad device: %s", said)
	case has("nvidia-container"), has("nvml"):
		return gpuProblem(said)
	}
	return engine.Explain(fmt.Errorf("run a container of image %s: %w", s.Image, err))
}

func errName(name string) error {
	return problem(fmt.Sprintf("choose another --ml-name, or remove that container: docker rm -f %s", name), "container name %s is in use", name)
}

func errNoNetwork(name string) error {
	return problem(fmt.Sprintf("create it (docker network create %s) or correct --ml-network", name), "network %s does not exist", name)
}

// errNoImage names a missing image, and how it is had: ours are built, others are the user's to fetch.
func errNoImage(image string) error {
	help := fmt.Sprintf("load it (docker load) or fetch it (docker pull %s), or correct --ml-image", image)
	for own, how := range map[string]string{engine.ImagePYT: "make image", engine.ImageTF: "make image", engine.ImageTFLegacy: "scripts/images tf-legacy"} {
		if repository(image) == repository(own) {
			help = fmt.Sprintf("build it with %s, or load it with docker load", how)
		}
	}
	return problem(help, "image %s is not at the container engine", image)
}

// repository is an image's name without its tag.
func repository(image string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name
}
