"""What each ONNX operator means: small functions that state results in the text form.

An operator on f16 or bf16 rounds once, at its end, to that type; what several steps make up rounds
each step, in f32, for ONNX Runtime's CPU kernels compute 16-bit operators there. An operator that
ONNX defines by a function body has that body as its contract; the bodies of norms, softmax and
activations are written out here, so that they keep their names, and tests hold them against ONNX's.
"""
