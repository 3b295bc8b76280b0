"""The stages of an export on their request, each told to a listener, with the time and the memory that it takes.

In: an ExportRequest, and what the stages before gave.
Out: a Program.
May import: program, and what it stands on; the pipeline calls these in their order.

| module | |
| --- | --- |
| running | the stages as they run |
| translating | the model that a plan describes, with what there is to say of it |
| repairing | repairs for the target, and what stays |
| saving | the file, and its comparison with PyTorch |
| casting | the cast to float16 or bfloat16 |
| genai_files | what a folder for onnxruntime-genai holds beside the model |
"""
