// This file lets the package declare newDeviceManager without a body (go:linkname).
