// Package taskenv is what the programs of tasks have of a host's environment, and which variables a task may give them.
package taskenv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/taskfile"
)

// Of names that end in * all are meant that begin so.
var (
	// passed are what SLs and programs without a container have of their SWOP's environment: what finds programs and libraries, and how they
	// use the machine. The rest may hold secrets of the owner's.
	passed = []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
		"LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "CONDA_PREFIX",
		"CUDA_*", "NVIDIA_*", "HIP_*", "ROCR_*", "ROCM_*", "HSA_*", "OMP_*", "MKL_*", "OPENBLAS_*", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK",
	}
	// gpus are variables by which an engine, or a GPU's driver, decides which of the host's devices a program has.
	gpus = []string{"NVIDIA_*", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"}
	// loaders are variables by which a process runs other code than its program, or has another host than its owner has set up.
	loaders = []string{
		"LD_*", "DYLD_*", "GLIBC_*", "MALLOC_*", "GCONV_PATH", "LOCPATH", "NLSPATH", "HOSTALIASES", "RES_OPTIONS", "PATH", "ENV", "BASH_*", "IFS", "SHELL",
		"HOME", "USER", "LOGNAME", "TMPDIR", "XDG_*", "PYTHON*", "VIRTUAL_ENV", "CONDA_*", "SWARM_*", "SPIFFE_*", "LISTEN_*", "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY",
		"CUDA_*", "NVTX_*", "HIP_*", "ROCR_*", "ROCM_*", "HSA_*", "OMP_TOOL*", "INTEL_*", "ITT_*", "NCCL_*", "OCL_*", "OPENCL_*", "OPENSSL_*", "SSL_CERT_*",
		"TORCH_*", "TORCHINDUCTOR_*", "TRITON_*", "TF_PLUGGABLE_*", "XLA_*", "KERAS_HOME", "MPLCONFIGDIR", "DOCKER_*", "GIT_*", "GODEBUG",
	}
)

// loopback has a program train alone, without the swarm, and does nothing else: the original's task files name it.
const loopback = "SWARM_LOOPBACK"

// Inherited are the variables of a SWOP's environment that SLs and programs without a container have too.
func Inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !hasName(passed, name)
	})
}

// Check refuses variables that a task may not give to its program; process says that the program has no container. An owner may set each of
// them, in the host's profile.
func Check(vars []taskfile.Var, process bool) error {
	for _, v := range vars {
		switch Judge(v.Name, v.Value, process) {
		case Free:
		case Malformed:
			return fmt.Errorf("the task's Envvars: %.80q is no name of a variable with a value", v.Name)
		case Devices:
			return fmt.Errorf("the task's Envvars set %.80s, which says which GPUs of this host a program has: leave it out, the host's profile says it", v.Name)
		case Loads:
			return fmt.Errorf("the task's Envvars set %.80s, by which a process could run other code than its program: leave it out, or have the host's owner set it as usrenvvars in the profile", v.Name)
		}
	}
	return nil
}

// Verdict is what is said of a variable that a task gives to its program.
type Verdict int

// A variable of a task may be set if it is Free alone.
const (
	Free      Verdict = iota
	Malformed         // it is none
	Devices           // it says which of the host's devices a program has
	Loads             // by it a process could run other code than its program
)

// Judge judges a variable of a task; process says that its program has no container.
func Judge(name, value string, process bool) Verdict {
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0):
		return Malformed
	case hasName(gpus, name):
		return Devices
	case process && name != loopback && hasName(loaders, name):
		return Loads
	}
	return Free
}

func hasName(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, open := strings.CutSuffix(n, "*")
		return n == name || open && strings.HasPrefix(name, prefix)
	})
}
