package vllmsim

const (
	servingSim = "measured requests on vLLM 0.19.0, casys-kaist/LLMServingSim 5daddb21a545, MIT, " +
		"Copyright (c) 2024 CASYS Lab at KAIST"
	aiconfigurator = "silicon_sample.csv of ai-dynamo/aiconfigurator 095f58a51c4c, Apache-2.0, Copyright " +
		"(c) 2025-2026 NVIDIA CORPORATION & AFFILIATES"
)

// fitted are profiles of measured GPUs. PROFILES.md says how far they are from the measurements.
var fitted = []Profile{
	{
		Name: "rtxpro6000-llama-3.1-8b", About: "Llama 3.1 8B, bf16, one RTX PRO 6000",
		Origin: servingSim,

		Base: 9443, Prefill: 34.66, Decode: 11.25, Resident: 0.1296, Noise: 0.03,
		MaxNumSeqs: 128, MaxNumBatchedTokens: 2048, NumGPUBlocks: 32768,
	},
	{
		Name: "rtxpro6000x2-qwen3-32b", About: "Qwen3 32B, bf16, two RTX PRO 6000 in tensor parallel",
		Origin: servingSim,

		Base: 32188, Prefill: 166.74, Decode: 25.44, Resident: 0.1711, Noise: 0.03,
		MaxNumSeqs: 128, MaxNumBatchedTokens: 2048, NumGPUBlocks: 32768,
	},
	{
		Name: "h100x2-qwen3-32b", About: "Qwen3 32B, bf16, two H100 in tensor parallel",
		Origin: aiconfigurator,

		Base: 14286, Prefill: 65.99, Decode: 58.47, Resident: 0.0550, Noise: 0.03,
		MaxNumSeqs: 256, MaxNumBatchedTokens: 8192, NumGPUBlocks: 19000,
	},
	{
		Name: "h100x4-llama-3.1-70b", About: "Llama 3.1 70B, fp8, four H100 in tensor parallel",
		Origin: aiconfigurator,

		Base: 11000, Prefill: 63.60, Decode: 67.93, Resident: 0.0259, Noise: 0.03,
		MaxNumSeqs: 256, MaxNumBatchedTokens: 8192, NumGPUBlocks: 42000,
	},
	{
		Name: "b200x4-llama-3.1-70b", About: "Llama 3.1 70B, fp8, four B200 in tensor parallel",
		Origin: aiconfigurator,

		Base: 7576, Prefill: 30.57, Decode: 60.35, Noise: 0.03,
		MaxNumSeqs: 256, MaxNumBatchedTokens: 8192, NumGPUBlocks: 118000,
	},
}
