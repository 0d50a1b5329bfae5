package container

import "strings"

// gpuProblem names what is known to break GPUs, by what the engine or nvidia-smi said.
func gpuProblem(said string) error {
	text := strings.ToLower(said)
	switch {
	case strings.Contains(text, "driver/library version mismatch"):
		return problem("reboot, or unload and load the driver's modules (rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; modprobe nvidia)",
			"the GPU driver in the kernel and its libraries have different versions, as after an upgrade: %s", said)
	case strings.Contains(text, "failed to initialize nvml: unknown error"):
		return problem("use the systemd cgroup driver in the engine (native.cgroupdriver=systemd) or CDI, and start again",
			"the GPUs were taken from the container: a systemd daemon-reload does that where the engine uses the cgroupfs driver: %s", said)
	case strings.Contains(text, "nvml error: driver not loaded"), strings.Contains(text, "couldn't communicate with the nvidia driver"),
		strings.Contains(text, "driver rpc error"):
		return problem("load it (modprobe nvidia) and see that nvidia-smi works on the host", "the GPU driver is not loaded: %s", said)
	case strings.Contains(text, "unknown device"), strings.Contains(text, "device error"), strings.Contains(text, "invalid device"):
		return problem("correct --gpu: nvidia-smi -L on the host lists them", "a GPU that was asked for does not exist: %s", said)
	}
	return problem("see that nvidia-smi works on the host, or leave --gpu out", "GPUs can not be used: %s", said)
}

// judgeGPUs compares the GPUs that a program would see with those that were asked for.
func judgeGPUs(spec Spec, r report) error {
	if spec.GPUs == "" {
		return nil
	}
	gpus, parts := 0, 0 // a MIG device is a part of a GPU, listed below it
	for _, line := range r.gpus {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "GPU "):
			gpus++
		case strings.HasPrefix(line, "MIG "):
			parts++
		}
	}
	said := oneLine(strings.Join(r.gpus, " "))
	switch code := r.said["gpu-exit"]; {
	case code == "127":
		return problem("install the NVIDIA container toolkit and restart the engine, or leave --gpu out",
			"no GPU reached the container: the engine put no nvidia-smi into it")
	case code != "0":
		return gpuProblem("nvidia-smi: " + said)
	case gpus == 0:
		return gpuProblem("nvidia-smi lists none: " + said)
	}
	asked, have := 1, gpus
	if spec.GPUs != "all" {
		asked = strings.Count(spec.GPUs, ",") + 1
		if strings.Contains(spec.GPUs, "MIG-") || strings.Contains(spec.GPUs, ":") {
			have = max(gpus, parts)
		}
	}
	if have < asked {
		return problem("correct --gpu: nvidia-smi -L on the host lists them", "--gpu %s asks for %d GPUs, the container has %d: %s", spec.GPUs, asked, have, said)
	}
	return nil
}
