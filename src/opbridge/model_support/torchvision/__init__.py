"""What is known of torchvision.

In: nothing; torchvision's modules are looked up where they are loaded.
Out: `support`, which the entry point names: suppression of boxes by class for any number of boxes (`suppression`), what
an R-CNN finds for any number of proposals (`detections`), its masks in images (`masks`) and its keypoints (`keypoints`)
without a loop; and for images of unknown sizes, their batch (`batches`) and the pooling of regions (`poolers`).
May import: the modules of `opbridge.model_support`, base.
"""
